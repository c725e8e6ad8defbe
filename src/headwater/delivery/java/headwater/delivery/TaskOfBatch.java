package headwater.delivery;

/** Which part of a micro-batch is written; with an attempt above 0 it has been tried before. */
record TaskOfBatch(long batch, int task, int tasks, int attempt) {}
