"""What a decode costs on this machine: measured once, stored, refined by every real step."""
