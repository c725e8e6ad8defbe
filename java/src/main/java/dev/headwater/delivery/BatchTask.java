package dev.headwater.delivery;

/** A task of a micro-batch; an attempt above 0 is a retry. */
record BatchTask(long batch, int task, int tasks, int attempt) {}
