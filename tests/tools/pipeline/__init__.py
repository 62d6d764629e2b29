"""Campaigns, traces and tables on Spark."""
