// Times in the address are UTC; fields of forms are local times.

// toField returns a time for an <input type="datetime-local">.
export function toField(iso: string | null | undefined): string {
  const t = iso ? new Date(iso) : undefined;
  if (!t || Number.isNaN(t.getTime())) return '';
  return new Date(t.getTime() - t.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

// fromField returns what such a field has, in UTC, or null.
export function fromField(value: string): string | null {
  const t = new Date(value);
  return value && !Number.isNaN(t.getTime()) ? t.toISOString() : null;
}
