"""Configuration: mm2.properties, Connect JSON and Strimzi YAML, read into one frozen, typed Config."""

from twinlog.config.flows import Client, Config, Connector, FlowConfig, Worker
from twinlog.config.load import load
from twinlog.config.problems import InvalidConfigError, Problem

__all__ = ["Client", "Config", "Connector", "FlowConfig", "InvalidConfigError", "Problem", "Worker", "load"]
