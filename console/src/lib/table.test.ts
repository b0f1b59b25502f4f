import { expect, test } from 'vitest';
import { csvOf, jsonOf, textOf } from './table';

test.each([
  [null, 'NULL'],
  ['', ''],
  [1.5, '1.5'],
  [false, 'false'],
  [{ a: [1] }, '{"a":[1]}'],
])('the value %j is shown as %s', (value, want) => expect(textOf(value)).toBe(want));

test('CSV quotes what has separators, and has nothing for NULL', () => {
  const rows = [
    [1, null],
    ['a,b', 'say "hi"'],
    ['two\nlines', { a: 1 }],
  ];
  expect(csvOf(['id', 'the name'], rows)).toBe(
    'id,the name\r\n1,\r\n"a,b","say ""hi"""\r\n"two\nlines","{""a"":1}"\r\n',
  );
});

test('JSON has every column, also of equal names', () => {
  expect(
    JSON.parse(
      jsonOf(
        ['id', 'id', 'name'],
        [
          [1, 2, null],
          [3, 4],
        ],
      ),
    ),
  ).toEqual([
    { id: 1, id_2: 2, name: null },
    { id: 3, id_2: 4, name: null },
  ]);
});
