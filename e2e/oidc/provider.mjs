// An OpenID Connect provider on oidc-provider, which knows everybody. Arguments: the redirect URI and the
// secret of the client "steward". It prints its issuer, and stops when its input ends.
import http from 'node:http';
import Provider from 'oidc-provider';

const [redirectURI, secret] = process.argv.slice(2);

const server = http.createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: 'steward', client_secret: secret, redirect_uris: [redirectURI] }],
    claims: {
      openid: ['sub'],
      profile: ['given_name', 'family_name'],
      email: ['email', 'email_verified'],
      teams: ['teams'],
    },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({
        sub: id,
        given_name: id,
        family_name: 'Stranger',
        email: `${id}@stranger.example`,
        email_verified: true,
        teams: ['staff', 'leads'],
      }),
    }),
  });
  server.on('request', provider.callback());
  console.log(JSON.stringify({ issuer }));
});
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
