"""FewRel: relations between words in sentences."""
