package dev.headwater.quality;

import java.util.Base64;
import org.apache.datasketches.hll.HllSketch;
import org.apache.datasketches.hll.Union;

/** Estimates the number of distinct values over all batches from the sketches of each batch. */
public final class DistinctCounts {
  private static final String NONE = "";
  private final Union[] unions;

  public DistinctCounts(int columns, int registersLog2) {
    unions = new Union[columns];
    for (int i = 0; i < columns; i++) {
      unions[i] = new Union(registersLog2);
    }
  }

  /**
   * Adds a batch: its sketches in base64, one for each column, separated by commas; empty for a
   * column without a sketch. One call for all of them, as each call costs a round trip.
   */
  public synchronized double[] add(String sketches) {
    String[] parts = sketches.split(",", -1);
    double[] estimates = new double[unions.length];
    for (int i = 0; i < unions.length; i++) {
      if (!parts[i].equals(NONE)) {
        unions[i].update(HllSketch.heapify(Base64.getDecoder().decode(parts[i])));
      }
      estimates[i] = unions[i].getEstimate();
    }
    return estimates;
  }
}
