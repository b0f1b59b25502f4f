// How numbers, sizes and times are written.

const numbers = new Intl.NumberFormat('en');
const compactNumbers = new Intl.NumberFormat('en', {
  notation: 'compact',
  maximumFractionDigits: 1,
});
const percents = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 });
const money = new Intl.NumberFormat('en', { style: 'currency', currency: 'USD' });
const smallMoney = new Intl.NumberFormat('en', {
  style: 'currency',
  currency: 'USD',
  maximumSignificantDigits: 2,
});

export const number = (n: number) => numbers.format(n);
export const compact = (n: number) => compactNumbers.format(n);
export const percent = (share: number) => percents.format(share);
export const usd = (n: number) => (n > 0 && n < 0.01 ? smallMoney.format(n) : money.format(n));
// cost is a price that is not shown as nothing if it is little.
export const cost = (n: number) => (n > 0 && n < 0.01 ? '< $0.01' : money.format(n));

// bytes writes a size in decimal units, as the cost of storage is counted.
export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  const units = ['kB', 'MB', 'GB', 'TB', 'PB'];
  let i = -1;
  do {
    n /= 1000;
    i++;
  } while (n >= 999.5 && i < units.length - 1);
  return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} days`;
}

// relative writes how long ago a time is, or in how long it comes.
export function relative(time: string | number | Date, now = Date.now()): string {
  const ms = new Date(time).getTime() - now;
  if (Number.isNaN(ms)) return '';
  const ago = Math.abs(ms);
  if (ago < 5_000) return 'now';
  const text = ago < 59_500 ? `${Math.round(ago / 1000)} s` : duration(ago);
  return ms < 0 ? `${text} ago` : `in ${text}`;
}

const full = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
const days = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium' });
const clocks = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });

export const dateTime = (t: string | number | Date) => full.format(new Date(t));
export const day = (t: string | number | Date) => days.format(new Date(t));
export const clock = (t: string | number | Date) => clocks.format(new Date(t));

// plural returns "1 receipt", "2 receipts".
export const plural = (n: number, one: string, many = one + 's') =>
  `${number(n)} ${n === 1 ? one : many}`;

// shellQuote returns text as one word of a shell. Control characters are written as escapes, since
// a terminal could take them for the end of what is pasted.
export function shellQuote(text: string): string {
  if (/^[\w./:=@%+,-]+$/.test(text)) return text;
  if (!/[\0-\x08\x0b-\x1f\x7f-\x9f]/.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`;
  const escape = (c: string) =>
    c === "'" || c === '\\'
      ? '\\' + c
      : [...new TextEncoder().encode(c)]
          .map((b) => '\\x' + b.toString(16).padStart(2, '0'))
          .join('');
  return `$'${text.replace(/['\\\0-\x08\x0b-\x1f\x7f-\x9f]/g, escape)}'`;
}
