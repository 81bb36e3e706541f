"""Client security: TLS, keystores and SASL logins. The Kafka requests that carry them are in twinlog.kafka."""
