"""Judgement: what the facts about a wheel mean for each device."""
