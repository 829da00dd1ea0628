/**
 * The inputs of a derived stream as typed by the user.
 */

/** Reads `a = stream:channel, b = stream:channel`; null if it is not of this form. */
export function parseInputs(text: string): Readonly<Record<string, string>> | null {
  const inputs: Record<string, string> = {};
  for (const part of text.split(',')) {
    const found = /^\s*([A-Za-z_]\w*)\s*=\s*([^\s:]+:.*?)\s*$/.exec(part);
    const [, variable, source] = found ?? [];
    if (variable === undefined || source === undefined || variable in inputs) return null;
    inputs[variable] = source;
  }
  return inputs;
}
