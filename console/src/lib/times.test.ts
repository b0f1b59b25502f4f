import { expect, test } from 'vitest';
import { fromField, toField } from './times';

test('a field shows the local time of a time in UTC', () =>
  expect(toField('2026-03-01T20:15:30Z')).toBe('2026-03-02T01:45'));

test('a local time of a field becomes UTC', () =>
  expect(fromField('2026-03-02T01:45')).toBe('2026-03-01T20:15:00.000Z'));

test.each([null, undefined, '', 'yesterday'])('%j is no time: the field is empty', (iso) =>
  expect(toField(iso)).toBe(''),
);

test.each(['', 'yesterday'])('a field with %j has no time', (value) =>
  expect(fromField(value)).toBeNull(),
);
