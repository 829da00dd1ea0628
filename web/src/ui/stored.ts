/**
 * Choices that this browser keeps: storage may be forbidden, then a choice holds for this visit.
 */

/** Returns what was kept under a name; null if nothing was. */
export function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Keeps a text under a name. */
export function store(name: string, text: string): void {
  try {
    localStorage.setItem(name, text);
  } catch {
    // It holds for this visit.
  }
}
