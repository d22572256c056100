"""Step records to summaries, and facts about the machine and this process."""
