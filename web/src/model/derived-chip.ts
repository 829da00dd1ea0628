/**
 * A derived stream, or one that an operator makes, as a line of the list: what it is, and what is wrong with it.
 */

/** What the monitor tells of a stream that it lets be made; texts are empty where they do not apply. */
export interface Made {
  readonly name: string;
  /** How it follows from others. */
  readonly expression: string;
  /** The function that makes it, `module:function`. */
  readonly python: string;
  /** How its operator fares. */
  readonly state: string;
  /** Why it does not go on. */
  readonly error: string;
}

/** What the list shows of a stream; operators belong to the monitor's settings, so that no page ends them. */
export function derivedChip(made: Made): { name: string; words: string; title: string; ends: boolean } {
  const { name, expression, python, state, error } = made;
  const isOperator = python !== '';
  const words = isOperator && state !== 'running' ? `${name} (${state})` : name;
  const what = isOperator ? `Python ${python}` : `= ${expression}`;
  return { name, words, title: error === '' ? what : `${what}\n${error}`, ends: !isOperator };
}
