"""One job through all stages. Decisions are made in the rooms below; here they are put in order."""
