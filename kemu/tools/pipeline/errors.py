"""Errors that a user of campaigns, analyses and queries can correct."""


class CampaignError(Exception):
    """A campaign or an analysis cannot be read, started or finished; the message gives the reason and the remedy."""


class SparkTrouble(Exception):
    """Spark cannot run here; the message gives the remedy."""
