"""How records move: the reader plans claims, the sink relays them. The only room that imports pyspark."""
