/**
 * Wait before the next attempt to reach the server: short at first, and bounded.
 */

const FIRST_MS = 250;
/** The longest wait: a restarted server is found within this time. */
const LONGEST_MS = 5_000;

/**
 * Returns the wait before attempt number `attempt` (0 for the first).
 *
 * `chance` in [0, 1) spreads the pages of a control room, which would otherwise all come back at once.
 */
export function backoffMs(attempt: number, chance: number): number {
  const full = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt, 16));
  return Math.round(full * (0.5 + chance / 2));
}
