"""What Responses has beyond an answer: answers that are kept, found again, and made in the background."""
