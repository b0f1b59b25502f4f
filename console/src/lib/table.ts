// The rows of a query as text.

// textOf returns a value as it is shown.
export const textOf = (v: unknown) =>
  v === null ? 'NULL' : typeof v === 'object' ? JSON.stringify(v) : String(v);

function quoted(v: unknown): string {
  const t = v === null ? '' : textOf(v);
  return /[",\r\n]/.test(t) ? `"${t.replaceAll('"', '""')}"` : t;
}

// csvOf returns rows as CSV (RFC 4180), with the names of the columns first.
export const csvOf = (columns: string[], rows: unknown[][]) =>
  [columns, ...rows].map((row) => row.map(quoted).join(',')).join('\r\n') + '\r\n';

// jsonOf returns rows as an array of objects. Columns may have the same name: the later ones get a
// number.
export function jsonOf(columns: string[], rows: unknown[][]): string {
  const names = columns.map((c, i) => (columns.indexOf(c) === i ? c : `${c}_${i + 1}`));
  return JSON.stringify(
    rows.map((row) => Object.fromEntries(names.map((n, i) => [n, row[i] ?? null]))),
    null,
    2,
  );
}
