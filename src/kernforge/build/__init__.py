"""Making it: keys, the plan, the backend call, gencode policies and the ledger."""
