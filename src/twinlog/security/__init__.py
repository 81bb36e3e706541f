"""How a cluster is locked: certificates, keys, passwords, tokens. Knows of no Kafka request; kafka/ speaks."""
