import { expect, test } from 'vitest';
import { type Member, nameOf } from './people';

test.each([
  [{ first_name: 'Ada', last_name: 'Lovelace', email: 'ada@example.com' }, 'Ada Lovelace'],
  [{ first_name: '', last_name: 'Lovelace', email: 'ada@example.com' }, 'Lovelace'],
  [{ first_name: '', last_name: '', email: 'ada@example.com' }, 'ada@example.com'],
  [{ first_name: '', last_name: '', email: '' }, 'usr_1'],
])('a member is called by name, else email address, else id: %j', (fields, want) => {
  expect(nameOf({ id: 'usr_1', ...fields } as Member)).toBe(want);
});
