"""Errors that a user of campaigns, analyses and queries can correct."""


class CampaignError(Exception):
    """A campaign or an analysis cannot be read, started or finished; the message gives the reason and the remedy."""


class Unfinished(CampaignError):
    """The work ended early, as on a full disk; the finished part is kept, and the same command does the rest."""


class RunFailed(Unfinished):
    """A run of a campaign raised an exception; the message has the command that repeats the run."""


class SparkTrouble(Exception):
    """Spark cannot run here; the message gives the remedy."""
