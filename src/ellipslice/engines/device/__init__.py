"""Chains together on a device, a GPU above all: in plain XLA, or in one kernel."""
