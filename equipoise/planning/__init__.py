"""Before the first token: whether a run can work, what it does, what that takes."""
