"""Measuring players on named sets: what is asked, answered, scored and recorded."""
