"""What the operating system says of this machine: for people, result files and the doctor. Nothing infers from it."""
