"""What came out: facts about ELF files, fat binaries, kernels and wheels. No judgement."""
