import { describe, expect, test } from 'vitest';
import { ladderOf, type Ladder } from '../../src/model/ladder';
import { LossTimes } from '../../src/model/loss-times';
import { flowOf, pathOf, stepTo, type Path, type PathPlace, type PlaceName } from '../../src/model/path';
import { STAGES } from '../../src/model/stage';
import { findingsOf, spared } from '../../src/model/finding';
import { readAccount, readGapDetail, type GapDetail } from '../../src/wire/messages';

const SECOND = 1_000_000_000n;
/** A different count at every stage, so that none can stand for another: 1, 2, 4 … */
const LOST = Object.fromEntries(STAGES.map(({ name }, i) => [name, 2 ** i]));
const UNEXPLAINED = 2 ** 25;
const UNSETTLED = 2 ** 26;

const ladder = (lost: Readonly<Record<string, number>>, unexplained = 0, unsettled = 0, delivered = 1000): Ladder => {
  const gone = Object.entries(lost).reduce((sum, [name, count]) => sum + (['browser', 'archive_write'].includes(name) ? 0 : count), 0);
  const next = delivered + gone + unexplained + unsettled + 3;
  return ladderOf(readAccount({ stream: 'a', elements: { next, delivered, lost, unexplained, unsettled, in_flight: 3 } }), null);
};
const path = (of: Ladder, archive = true, recent: readonly string[] = []): Path => pathOf(of, { archive, isRecent: ({ stage }) => recent.includes(stage.name) });
const place = (of: Path, name: PlaceName): PathPlace => {
  const found = of.places.find((each) => each.name === name);
  if (found === undefined) throw new Error(`no place ${name}`);
  return found;
};
const gap = (id: number, lost: Readonly<Record<string, number>>, more: Readonly<Record<string, unknown>> = {}): GapDetail =>
  readGapDetail({ id, from_ns: id * 1e9, to_ns: id * 1e9 + 5e8, first_index: id, samples: 5, lost, evidence: [`evidence ${id}`], ...more });

describe('the picture of the way', () => {
  test('has the places in order, and every stage at exactly one', () => {
    const { places } = path(ladder(LOST, UNEXPLAINED, UNSETTLED));
    expect(places.map(({ name }) => name)).toEqual(['publisher', 'sender', 'network', 'receiver', 'reader', 'archive', 'browser', 'unexplained', 'unsettled']);
    const stages = places.flatMap(({ rungs }) => rungs.map(({ stage }) => stage.name));
    expect([...stages].sort()).toEqual([...STAGES.map(({ name }) => name), 'unexplained', 'unsettled'].sort());
    expect(place({ places, missing: 0 }, 'publisher').rungs.map(({ stage }) => stage.name)).toEqual(['source', 'publisher_queue', 'publisher_paused', 'injected']);
    expect(place({ places, missing: 0 }, 'sender').rungs).toHaveLength(4);
    expect(place({ places, missing: 0 }, 'receiver').rungs).toHaveLength(12);
  });

  test('sums up to the account: what was sent and neither delivered nor is in flight', () => {
    const of = ladder(LOST, UNEXPLAINED, UNSETTLED);
    const { places, missing } = path(of);
    expect(of.balanced).toBe(true);
    expect(missing).toBe(of.sent - of.delivered - of.inFlight);
    const sum = (some: readonly PathPlace[]): number => some.reduce((total, { elements }) => total + elements, 0);
    // Archive and browser lie behind the reader's account: shown, and outside its law, as in the ladder.
    expect(sum(places.filter(({ name }) => name !== 'archive' && name !== 'browser'))).toBe(missing);
    expect(sum(places)).toBe(of.rungs.reduce((total, { elements }) => total + elements, 0));
    expect(sum(places)).toBe(2 ** 27 - 1);
  });

  test('shows an archive where there is one, or where one has lost something', () => {
    const names = (of: Path): readonly string[] => of.places.map(({ name }) => name);
    expect(names(path(ladder({}), false))).not.toContain('archive');
    expect(names(path(ladder({}), true))).toContain('archive');
    expect(names(path(ladder({ archive_write: 4 }), false))).toContain('archive');
  });

  test('does not say that an archive wrote all, which only its recorder knows', () => {
    const counted = (of: Path): readonly string[] => of.places.filter((each) => each.counted).map(({ name }) => name);
    expect(counted(path(ladder({})))).toEqual(['publisher', 'sender', 'network', 'receiver', 'reader', 'browser', 'unexplained', 'unsettled']);
    expect(counted(path(ladder({ archive_write: 4 })))).toContain('archive');
  });

  test('marks the places of recent losses and no others', () => {
    const { places } = path(ladder(LOST), true, ['injected', 'late']);
    expect(places.filter(({ recent }) => recent).map(({ name }) => name)).toEqual(['publisher', 'receiver']);
  });

  test('says what the server says of what flows, and nothing where it says nothing', () => {
    const flow = (nominalRate: number, samplesPerSecond: number): readonly string[] =>
      Object.values(flowOf({ nominalRate, samplesPerSecond })).map((text: string) => text.replaceAll('\u202f', ' '));
    expect(flow(1000, 993.4)).toEqual(['states 1.00 k samples/s', '993 samples/s arrive']);
    expect(flow(0, 0)).toEqual(['', '0 samples/s arrive']);
  });

  test('is walked with arrows, which end at its ends', () => {
    expect(['ArrowLeft', 'ArrowRight', 'Home', 'End', 'Enter'].map((key) => stepTo(key, 3, 9))).toEqual([2, 4, 0, 8, null]);
    expect([stepTo('ArrowLeft', 0, 9), stepTo('ArrowRight', 8, 9)]).toEqual([0, 8]);
  });
});

describe('what was lost lately', () => {
  const recent = (times: LossTimes, of: Ladder, now: bigint): readonly string[] =>
    of.rungs.filter((rung) => times.isRecent(rung, now)).map(({ stage }) => stage.name);

  test('is known by gaps, for fifteen seconds and not longer', () => {
    const times = new LossTimes();
    const of = ladder({ network: 5, late: 5 });
    times.onGaps([gap(100, { network: 5 }), gap(20, { late: 5 }), gap(30, { network: 5 })]);
    const end = 100n * SECOND + SECOND / 2n;
    expect(recent(times, of, end + 15n * SECOND)).toEqual(['network']);
    expect(recent(times, of, end + 15n * SECOND + 1n)).toEqual([]);
  });

  test('is known by counts that rise, and not by those it began with', () => {
    const times = new LossTimes();
    times.onRungs(ladder({ browser: 7, network: 5 }).rungs, 10n * SECOND);
    expect(recent(times, ladder({ browser: 7, network: 5 }), 10n * SECOND)).toEqual([]);
    times.onRungs(ladder({ browser: 8, network: 5 }).rungs, 12n * SECOND);
    expect(recent(times, ladder({ browser: 8, network: 5 }), 13n * SECOND)).toEqual(['browser']);
  });

  test('is what is not settled yet, as long as it is not', () => {
    expect(recent(new LossTimes(), ladder({}, 0, 4), SECOND)).toEqual(['unsettled']);
    expect(recent(new LossTimes(), ladder({}, 4, 0), SECOND)).toEqual([]);
  });
});

describe('the findings of a place', () => {
  const receiver = place(path(ladder({ receiver_socket_buffer: 9, late: 2, network: 1 })), 'receiver');

  test('are one for each stage at which something was lost, in the order of the way', () => {
    expect(findingsOf(receiver, []).map(({ rung }) => [rung.stage.name, rung.elements])).toEqual([['receiver_socket_buffer', 9], ['late', 2]]);
    expect(spared(receiver)).toHaveLength(10);
  });

  test('have the evidence of their own gaps, newest first, and bounded', () => {
    const gaps = [gap(1, { late: 2, receiver_socket_buffer: 1 }), gap(2, { network: 1 }), ...[3, 4, 5].map((id) => gap(id, { receiver_socket_buffer: 2 }))];
    const [buffer, late] = findingsOf(receiver, gaps);
    expect(buffer?.gaps.map(({ gap: { id }, elements, lines }) => [id, elements, lines])).toEqual([['5', 2, ['evidence 5']], ['4', 2, ['evidence 4']], ['3', 2, ['evidence 3']]]);
    expect(buffer?.furtherGaps).toBe(1);
    expect(late?.gaps.map(({ gap: { id } }) => id)).toEqual(['1']);
    expect(late?.furtherGaps).toBe(0);
    const wordy = gap(6, { late: 1 }, { evidence: ['a', 'b', 'c', 'd'] });
    expect(findingsOf(receiver, [wordy])[1]?.gaps[0]?.lines).toEqual(['a', 'b', 'c']);
  });
});
