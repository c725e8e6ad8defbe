/** The time, for words such as "4 min ago": it moves on its own, and not too often. */
import { useEffect, useState } from "react";

export function useNow(every = 5_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}
