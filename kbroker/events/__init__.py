"""Events of groups, partitions and producers, with causes: values, sentences, the last ones."""
