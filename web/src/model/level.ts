/**
 * The level of a stream in words: who can read and forge its datagrams.
 */
const LEVELS = new Map([
  ['group', 'Encrypted and authenticated: only stations with keys of the laboratory read and write it'],
  ['clear', 'In clear: every host on the network can read and forge it'],
]);

/** Returns what a level means. */
export function levelText(level: string): string {
  return LEVELS.get(level) ?? `Level ${level}`;
}
