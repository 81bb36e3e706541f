"""Runs flows until told to stop: the only room that sleeps."""
