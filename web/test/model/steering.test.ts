import { describe, expect, test } from 'vitest';
import { placed, readMarks } from '../../src/model/steering-marks';
import { controlOf, expected, hindrance, limitsText, moodOf, outcomeText, parseValue, readApp, readOutcome, totalsText, valueText, type Parameter } from '../../src/model/steering';

const GAIN = {
  name: 'gain', dtype: 'f8', shape: [], unit: 'V', min: 0, max: 10, greatest_step: 4, administered: false, group: null,
  value: 1.5, known: true, revision: 3, holder: null, yours: false, may: true,
};
const APP = {
  app: 'sim/engine', epoch: '1-1', parameters: [GAIN], totals: { received: 3, applied: 2, refused: 1, refused_by_rule: { range: 1 } },
  stopped: { app: false, all: false }, may: { steer: true, administer: false },
};

const app = (changes: object = {}, of: object = {}) => readApp({ ...APP, ...of, parameters: [{ ...GAIN, ...changes }] });

function parameter(changes: object = {}): Parameter {
  const [first] = app(changes).parameters;
  if (first === undefined) throw new Error('there is one');
  return first;
}

describe('an app', () => {
  test('is read field by field', () => {
    expect(parameter()).toMatchObject({ name: 'gain', min: 0, max: 10, greatestStep: 4, group: null, value: [1.5], revision: 3, may: true });
    expect(readApp(null)).toMatchObject({ app: '', parameters: [], may: { steer: false, administer: false } });
  });

  test('says what its commands became', () => {
    expect(totalsText(app().totals)).toBe('3 commands = 2 applied + 1 refused');
    expect(totalsText(new Map())).toBe('0 commands');
  });

  test('says what hinders a change', () => {
    const why = (changes: object, of: object = {}): string => hindrance(app(changes, of), parameter(changes));
    expect(why({})).toBe('');
    expect(why({ may: false })).toContain('rules');
    expect(why({ group: 'heating' })).toBe('Take the lease of heating first.');
    expect(why({ group: 'heating', yours: true })).toBe('');
    expect(why({}, { stopped: { app: false, all: true } })).toBe('Steering is stopped.');
  });
});

describe('a parameter', () => {
  test('has the control of its type and limits', () => {
    expect(controlOf(parameter())).toBe('slider');
    expect(controlOf(parameter({ max: null }))).toBe('number');
    expect(controlOf(parameter({ dtype: 'bool', value: true }))).toBe('switch');
    expect(controlOf(parameter({ shape: [2], value: [1, 2] }))).toBe('list');
    expect(controlOf(parameter({ dtype: 'c8', value: [1, 2] }))).toBe('none');
    expect(controlOf(parameter({ dtype: 'u64', value: 2 ** 53 - 1 }))).toBe('slider');
    expect(controlOf(parameter({ dtype: 'u64', value: 2 ** 53 }))).toBe('none');
  });

  test('takes what it can and says what that is', () => {
    expect(parseValue(parameter(), ' 2.5 ')).toBe(2.5);
    for (const wrong of ['', 'two', '1 2', 'Infinity', 'NaN']) expect(parseValue(parameter(), wrong), wrong).toBeNull();
    expect(parseValue(parameter({ shape: [2] }), '1, 2')).toEqual([1, 2]);
    expect(parseValue(parameter({ shape: [2], dtype: 'bool' }), 'on, off')).toEqual([true, false]);
    expect(expected(parameter())).toBe('Write a number.');
    expect(expected(parameter({ shape: [2], dtype: 'i32', value: [1, 2] }))).toBe('Write 2 elements with commas between them, each a whole number.');
  });

  test('has its limits in words', () => {
    expect(limitsText(parameter())).toBe('0 to 10 V, steps of at most 4 V');
    expect(limitsText(parameter({ max: null, greatest_step: null, unit: '' }))).toBe('at least 0');
    expect(limitsText(parameter({ min: null, max: null, greatest_step: null }))).toBe('');
    expect(valueText(parameter({ value: [true, false] }).value)).toBe('on, off');
  });
});

test('every outcome has its words and its mood', () => {
  const said = (answer: object): readonly string[] => {
    const outcome = readOutcome(answer);
    return [outcomeText(outcome, 'V'), moodOf(outcome)];
  };
  expect(said({ outcome: 'applied', index: 12345, revision: 4, value: 2.5 })).toEqual(['Applied: 2.5 V from sample 12,345 on (revision 4)', 'good']);
  expect(said({ outcome: 'refused', rule: 'range', advice: 'keep to its minimum' })).toEqual(['Refused by the rule range: keep to its minimum', 'bad']);
  expect(said({ outcome: 'failed', reason: 'valve is stuck' })).toEqual(['Failed: valve is stuck', 'bad']);
  expect(said({ outcome: 'never_arrived', advice: 'send a new one' })).toEqual(['Never arrived: send a new one', 'bad']);
  expect(said({ outcome: 'expired' })).toEqual(['Expired', 'bad']);
  expect(said({})).toEqual(['Uncertain', 'warn']);
});

test('a change has a mark where it took effect, and others have none', () => {
  const marks = readMarks('sim/engine', { columns: [[1_000, 2_000, null, null], [2_000, 3_000, 7, 7], null, [3_000, 4_000, 8, 1_234]] });
  expect(marks).toEqual([
    { at: 2_000n, app: 'sim/engine', words: 'sim/engine was changed: sample 7' },
    { at: 3_000n, app: 'sim/engine', words: 'sim/engine was changed: samples 8 to 1,234' },
  ]);
  expect(placed(marks, { from: 1_000n, spanNs: 1_500n }).map(({ share }) => share)).toEqual([2 / 3]);
  expect(readMarks('sim/engine', null)).toEqual([]);
});
