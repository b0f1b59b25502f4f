import { beforeEach, expect, test, vi } from 'vitest';
import {
  addToHistory,
  clearHistory,
  forgetStatements,
  keepDraft,
  readDraft,
  readHistory,
} from './statements';

beforeEach(() => {
  localStorage.clear();
  sessionStorage.clear();
});

const sqlOf = (database: string) => readHistory(database).map((s) => s.sql);

test('the history has the newest statement first, and each once', () => {
  for (const sql of ['select 1', 'select 2', 'select 1']) addToHistory('db', sql);
  expect(sqlOf('db')).toEqual(['select 1', 'select 2']);
  expect(sqlOf('other')).toEqual([]);
});

test('the history returned is the one that is kept', () =>
  expect(addToHistory('db', 'select 1')).toEqual(readHistory('db')));

test('the history of a database has at most 50 statements', () => {
  for (let n = 0; n < 60; n++) addToHistory('db', `select ${n}`);
  expect(sqlOf('db')).toHaveLength(50);
  expect(sqlOf('db').at(-1)).toBe('select 10');
});

test('the history of a database has at most 100,000 characters', () => {
  for (const letter of 'abc') addToHistory('db', letter.repeat(40_000));
  expect(sqlOf('db').map((sql) => sql[0])).toEqual(['c', 'b']);
});

test('the ten databases used last are kept', () => {
  for (let n = 0; n < 11; n++) addToHistory(`db${n}`, 'select 1');
  expect(sqlOf('db0')).toEqual([]);
  expect(sqlOf('db1')).toEqual(['select 1']);
});

test('clearing a history leaves those of other databases', () => {
  addToHistory('a', 'select 1');
  addToHistory('b', 'select 2');
  expect(clearHistory('a')).toEqual([]);
  expect(sqlOf('a')).toEqual([]);
  expect(sqlOf('b')).toEqual(['select 2']);
});

test('a draft that is too long does not replace the one before', () => {
  keepDraft('db', 'select 1');
  keepDraft('db', 'x'.repeat(100_001));
  expect(readDraft('db')).toBe('select 1');
});

test('nothing is left after the sign-out', () => {
  keepDraft('db', 'select 1');
  addToHistory('db', 'select 1');
  forgetStatements();
  expect(localStorage.length + sessionStorage.length).toBe(0);
});

test.each(['{', '{"a":1}', 'null'])('a history that cannot be read is empty: %s', (text) => {
  localStorage.setItem('steward.sql.history', text);
  expect(sqlOf('db')).toEqual([]);
});

test('a full storage does not fail a statement', () => {
  const full = () => {
    throw new DOMException('full', 'QuotaExceededError');
  };
  vi.stubGlobal('localStorage', { getItem: () => null, setItem: full });
  expect(addToHistory('db', 'select 1').map((s) => s.sql)).toEqual(['select 1']);
  vi.unstubAllGlobals();
});
