/** Backfill of a far archive, in words: what came later, what is missing, and why holes are not filled. */
import type { BackfillFact } from '../wire/messages';
import { samples } from './gaps';
import { count, short } from './quantity';

/** Describes a backfill in sentences; nothing where there is none. */
export function backfillWords(backfill: BackfillFact | null): string {
  if (backfill === null) return '';
  const { fetched, fetchedBytes, missing, ranges, lacking, errors } = backfill;
  const came = fetched === 0 ? 'nothing fetched' : `${samples(fetched)} fetched (${short(fetchedBytes, 'B')})`;
  const there = lacking === 0 ? '' : `, ${count(lacking)} of them at the near site, too`;
  const rest = missing === 0 ? 'none missing' : `${count(missing)} missing in ${ranges === 1 ? '1 range' : `${count(ranges)} ranges`}${there}`;
  return `Backfill of the archive here, all streams: ${came}, ${rest}.${errors.map((reason) => ` Holes are not filled: ${reason}.`).join('')}`;
}
