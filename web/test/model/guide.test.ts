import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { guideAddress, sectionOfStage, sectionsOf, shortRemedy } from '../../src/guide/guide';
import { htmlOf } from '../../src/guide/html';
import { plain, readBlocks, readLine } from '../../src/guide/markdown';
import { splitAtMarks } from '../../src/guide/marks';
import { STAGES, UNEXPLAINED, UNSETTLED } from '../../src/model/stage';

const GUIDE = readFileSync(fileURLToPath(new URL('../../../docs/guide/losses.md', import.meta.url)), 'utf8');
const ALL = [...STAGES, UNEXPLAINED, UNSETTLED];

describe('the guide', () => {
  test.each(ALL.map(({ name }) => name))('says what %s means, under a heading that can be linked to', (name) => {
    const section = sectionOfStage(name);
    expect(section?.why.map(({ line }) => plain(line)).join(' ')).toMatch(/\w+ \w+ \w+/);
    expect(htmlOf(GUIDE)).toContain(`<h2 id="${guideAddress(name).split('#')[1]}">${name}</h2>`);
  });

  test('says what helps at every stage, except to wait', () => {
    expect(ALL.filter(({ remedy }) => remedy === '').map(({ name }) => name)).toEqual(['unsettled']);
    for (const { remedy } of ALL.filter(({ name }) => name !== 'unsettled')) {
      expect(remedy).toMatch(/^Helps: .+[^.;]\.$/);
      expect(remedy.split('(').length, remedy).toBe(remedy.split(')').length);
    }
  });

  test('has in one short line what helps first', () => {
    expect(shortRemedy('injected')).toBe('Helps: switch the loss off, on the page with "lose 1 %".');
    expect(shortRemedy('receiver_socket_buffer')).toContain('sysctl -w net.core.rmem_max=67108864');
    expect(shortRemedy('no such stage')).toBe('');
  });

  test('says how a command is taken back wherever it changes the host', () => {
    for (const { name } of ALL) {
      const { advice } = sectionOfStage(name) ?? { advice: [] };
      const commands = advice.filter(({ mark }) => mark === 'Helps').flatMap(({ line }) => line).filter(({ kind, text }) => kind === 'code' && /^(sysctl -w|ethtool -[GK]|ip (link set|route add))/.test(text));
      expect(commands.length === 0 || advice.some(({ mark }) => mark === 'Undo'), name).toBe(true);
    }
  });

  test('is written in what the page can read', () => {
    for (const block of readBlocks(GUIDE)) {
      const words = block.kind === 'paragraph' ? [block.source] : block.kind === 'list' ? block.items : block.kind === 'table' ? [...block.head, ...block.rows.flat()] : [];
      for (const span of words.flatMap((line) => [...readLine(line)])) {
        if (span.kind === 'text') expect(span.text).not.toMatch(/[`*]|\]\(|^#|<\w/);
        if (span.kind === 'link') expect(GUIDE).toContain(`\n## ${span.to?.slice(1)}\n`);
      }
    }
  });
});

describe('the part of Markdown', () => {
  test('has code, stress and links in a line', () => {
    expect(readLine('`a * b` is *not* [here](#there).')).toEqual([
      { kind: 'code', text: 'a * b' }, { kind: 'text', text: ' is ' }, { kind: 'stress', text: 'not' }, { kind: 'text', text: ' ' },
      { kind: 'link', text: 'here', to: '#there' }, { kind: 'text', text: '.' },
    ]);
    expect(readLine('2 * 3 `open')).toEqual([{ kind: 'text', text: '2 * 3 `open' }]);
  });

  test('has headings, paragraphs, lists, commands and tables', () => {
    expect(readBlocks('# One two\n\na\nb\n\n- c\n  d\n- e\n\n    x -y\n    z\n\n| h | i |\n|---|---|\n| j | k |\n')).toEqual([
      { kind: 'heading', level: 1, text: 'One two' }, { kind: 'paragraph', source: 'a b' }, { kind: 'list', items: ['c d', 'e'] },
      { kind: 'commands', text: 'x -y\nz' }, { kind: 'table', head: ['h', 'i'], rows: [['j', 'k']] },
    ]);
  });

  test('becomes HTML in which nothing is markup that was not', () => {
    expect(htmlOf('# A *b* & <c>\n\nHelps: `<script>` "x"')).toBe('<h1 id="a-b--c">A <em>b</em> &amp; &lt;c&gt;</h1>\n<p><b>Helps:</b> <code>&lt;script&gt;</code> &quot;x&quot;</p>');
  });

  test('is parted where a mark begins, and only there', () => {
    expect(splitAtMarks('Why. See: `x`. Helps: y. Does not help: z. Undo: w')).toEqual([
      { mark: null, source: 'Why.' }, { mark: 'See', source: '`x`.' }, { mark: 'Helps', source: 'y.' }, { mark: 'Does not help', source: 'z.' }, { mark: 'Undo', source: 'w' },
    ]);
    expect(splitAtMarks('It helps: a lot; See, too')).toEqual([{ mark: null, source: 'It helps: a lot; See, too' }]);
    const { why, advice } = sectionsOf('## s\n\nA.\n\n- *b*: c\n\nHelps: d.').get('s') ?? { why: [], advice: [] };
    expect(why.map(({ item, line }) => [item, plain(line)])).toEqual([[false, 'A.'], [true, 'b: c']]);
    expect(advice.map(({ mark, line }) => [mark, plain(line)])).toEqual([['Helps', 'd.']]);
  });
});
