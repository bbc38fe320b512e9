"""What `tiercel.stream.evaluation` is made of.

``samples``
    What is the next sample? Arrays and iterables, read one sample at a time.
``models``
    How is this model asked and taught? Four protocols behind the same calls.
``run``
    What happens at each sample? Predict, judge, learn, and what went wrong.
``gate``
    Is this sample to be learned? A detector's word on the model's residuals.
``baselines``
    What would a guess have scored? Persistence and the nearest neighbour.
``curves``
    How did the error go along the stream? Means at evenly spaced positions.
``durations``
    How long did the model take? Quantiles in constant memory.
``tally``
    How do samples become figures? Blocks of them, handed to all of the above.
``summary``
    How do counts become a report?
``report``
    What came out? The figures of an evaluation, and tables of them.
"""
