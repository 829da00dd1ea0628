/**
 * A derived stream, or one that an operator makes, as a line of the list: what it is, and what is wrong with it.
 */

/** A stream made by the monitor, with its state; texts are empty where they do not apply. */
export interface Made {
  readonly name: string;
  /** Expression over other streams. */
  readonly expression: string;
  /** State of its operator. */
  readonly python: string;
  /** Reason why it does not continue. */
  readonly state: string;
  /** Why it does not go on. */
  readonly error: string;
}

/** Content of a list entry; operators belong to the monitor's settings, so a page cannot end them. */
export function derivedChip(made: Made): { name: string; words: string; title: string; ends: boolean } {
  const { name, expression, python, state, error } = made;
  const isOperator = python !== '';
  const words = isOperator && state !== 'running' ? `${name} (${state})` : name;
  const what = isOperator ? `Python ${python}` : `= ${expression}`;
  return { name, words, title: error === '' ? what : `${what}\n${error}`, ends: !isOperator };
}
