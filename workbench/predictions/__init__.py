"""What a run will take, from the timed operations of this box and none of its own measurements. No torch here."""
