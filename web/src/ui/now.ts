/** The current time, for text such as "4 min ago"; updated every few seconds. */
import { useEffect, useState } from "react";

export function useNow(every = 5_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}
