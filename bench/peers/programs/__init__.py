"""What workers run, a module for each program. The bench itself imports none of them."""
