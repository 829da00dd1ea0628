/**
 * A derived stream, or one that an operator makes, as a line of the list: what it is, and what is wrong with it.
 */

/** A stream made by the monitor, with its state; texts are empty where they do not apply. */
export interface Made {
  readonly name: string;
  /** Kind of its node of the processing graph. */
  readonly kind: string;
  /** Expression over other streams. */
  readonly expression: string;
  /** The stream that a node of another kind reads. */
  readonly input: string;
  /** Function of its operator. */
  readonly python: string;
  /** State of its operator. */
  readonly state: string;
  /** Reason why it does not continue. */
  readonly error: string;
}

/** Content of a list entry; operators belong to the monitor's settings, so a page cannot end them. */
export function derivedChip(made: Made): { name: string; words: string; title: string; ends: boolean } {
  const { name, kind, expression, input, python, state, error } = made;
  const isOperator = python !== '';
  const words = isOperator && state !== 'running' ? `${name} (${state})` : name;
  const computed = expression === '' ? `${kind} ${input}` : `= ${expression}`;
  const what = isOperator ? `Python ${python}` : computed;
  return { name, words, title: error === '' ? what : `${what}\n${error}`, ends: !isOperator };
}
