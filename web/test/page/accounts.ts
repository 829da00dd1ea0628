/**
 * What a command told at its end: the accounts of its readers, held against the law.
 */
import { expect } from 'vitest';
import { fields, number, text, type Fields } from '../../src/wire/json';

/**
 * Expects of each of these streams accounts in order: balanced and explained, each where the one before it ended, the last one
 * closed. Mostly it is one. A publisher that is kept from its processor for a second leaves another one.
 */
export function expectInOrder(objects: readonly Fields[], streams: readonly string[]): readonly Fields[] {
  const accounts = objects.filter((object) => object['event'] === 'account');
  const epochs = new Map<string, Fields[]>();
  for (const account of accounts) {
    const epoch = `${text(account, 'stream')} ${text(account, 'epoch')}`;
    epochs.set(epoch, [...epochs.get(epoch) ?? [], account]);
  }
  expect([...epochs.keys()].map((epoch) => epoch.split(' ')[0]).sort()).toEqual(streams);
  for (const ofEpoch of epochs.values()) {
    for (const account of ofEpoch) expect(account).toMatchObject({ balanced: true, closed: true, explained: true });
    for (const [k, account] of ofEpoch.slice(1).entries()) {
      const before = ofEpoch[k] ?? {};
      expect(account).toMatchObject({ follows: before['account'], elements: { first: number(fields(before['elements']), 'next') } });
    }
    expect(ofEpoch.at(-1)).toMatchObject({ state: 'closed' });
  }
  return accounts;
}
