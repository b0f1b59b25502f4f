// Creates a passkey or signs in with one, as the options of the form say, and sends the form with what
// the authenticator has signed.
'use strict';

const form = document.getElementById('passkey');
const failed = form.querySelector('.failed');
const options = JSON.parse(form.dataset.options);
const creates = 'user' in options;

function decode(text) {
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
  return Uint8Array.from(binary, (c) => c.charCodeAt(0));
}

function encode(buffer) {
  const binary = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

options.challenge = decode(options.challenge);
if (creates) {
  options.user.id = decode(options.user.id);
  for (const known of options.excludeCredentials ?? []) known.id = decode(known.id);
}

function send(credential) {
  const response = {};
  const parts = creates
    ? ['clientDataJSON', 'attestationObject']
    : ['clientDataJSON', 'authenticatorData', 'signature', 'userHandle'];
  for (const part of parts) {
    if (credential.response[part]) response[part] = encode(credential.response[part]);
  }
  const id = encode(credential.rawId);
  form.elements.credential.value = JSON.stringify({ id, rawId: id, type: credential.type, response });
  form.submit();
}

// autofill offers passkeys in the field of the email address. It waits until one is chosen.
let autofill;

async function offer() {
  if (creates || !(await PublicKeyCredential.isConditionalMediationAvailable?.())) return;
  autofill = new AbortController();
  const request = { publicKey: options, mediation: 'conditional', signal: autofill.signal };
  navigator.credentials.get(request).then(send, () => {});
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  autofill?.abort();
  failed.hidden = true;
  try {
    const publicKey = options;
    send(await (creates ? navigator.credentials.create({ publicKey }) : navigator.credentials.get({ publicKey })));
  } catch {
    failed.hidden = false;
  }
});

form.querySelector('button').disabled = false; // without this script, there is nothing to send
if (window.PublicKeyCredential) {
  form.hidden = false;
  offer();
}
