import{$ as e,At as t,F as n,Ft as r,It as i,L as a,Ot as o,R as s,X as c,Z as l,bt as u,ct as d,dt as f,it as p,jt as m,k as h,lt as g,mt as _,nt as v,o as y,ot as b,tt as x,vt as S,xt as C}from"./load.svelte-BRbbL4p5.js";import{p as w}from"./Show-CD4lZpYE.js";var T=`urn:ietf:params:oauth:grant-type:device_code`,E=[{name:`web`,label:`Web application`,text:`Runs on a server, which can keep a secret`,type:`confidential`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`spa`,label:`Single-page, mobile or desktop app`,text:`Runs on devices of its users: no secret, PKCE instead`,type:`public`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`service`,label:`Service`,text:`Calls the API as itself, without a user`,type:`confidential`,grants:[`client_credentials`],redirects:!1},{name:`device`,label:`Command line or device`,text:`Shows a code, which the user enters in a browser elsewhere`,type:`public`,grants:[T,`refresh_token`],redirects:!1}],D={authorization_code:`Sign-in by redirect`,refresh_token:`Refresh tokens`,client_credentials:`As itself`,[T]:`Device code`},O=e=>D[e]??e;function k(e,t){let n=/^([a-z][a-z0-9+.-]*):/i.exec(e)?.[1]?.toLowerCase();if(e.length>2048||/[^\x21-\x7e]|[\\<>"^`{|}]/.test(e))return`Use printable ASCII characters, without blanks or backslashes.`;if(!n)return`Start with https://, as in https://app.example.com/callback.`;if(e.includes(`#`))return`Leave out the fragment (#…).`;if(n===`https`||n===`http`){let t=/^https?:\/\/([^/?]+)/i.exec(e)?.[1]??``;return t.includes(`@`)?`Leave out the user name.`:/^(\[[0-9a-f:.]+\]|[\w-]+(\.[\w-]+)*)(:\d{1,5})?$/i.test(t)?n===`http`&&!/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/i.test(t)?`Use https. Plain http is for localhost and loopback addresses.`:``:`Name a host after ${n}://.`}return n.includes(`.`)?t===`public`?e[n.length+1]===`/`?``:`Put a slash after the scheme: ${n}:/callback.`:`Use https. Schemes of apps are for public clients.`:`Use https, or a scheme with a dot, such as com.example.app.`}var A=e=>/^https?:\/\/[^\s/?#]+/i.test(e)?``:`Start with https:// or http://.`,j=e=>e.link.replace(/\/console\/oauth\/.*$/,``);function M(e){let t=e.redirect_uris[0];if(!t||!e.grant_types.includes(`authorization_code`))return;let n=[...crypto.getRandomValues(new Uint8Array(43))].map(e=>`ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_`[e%64]).join(``),r={response_type:`code`,client_id:e.id,redirect_uri:t,scope:e.scopes.join(` `),state:`console`,code_challenge:n,code_challenge_method:`S256`};return`/authorize?`+new URLSearchParams(r)}function N(e){let t=JSON.stringify,n=j(e),r=e.client_type===`confidential`,i=e.redirect_uris[0]??`https://app.example.com/callback`,a=e.scopes.join(` `),o=n.startsWith(`http:`),s=[],c=(e,t,n)=>s.push({name:e,label:t,text:n.trim()});e.grant_types.includes(`authorization_code`)&&r&&(c(`node`,`Node.js`,`
// npm install openid-client
import * as oidc from "openid-client";

const config = await oidc.discovery(
  new URL(${t(n)}),
  ${t(e.id)},
  process.env.STEWARD_CLIENT_SECRET,${o?`
  undefined,
  { execute: [oidc.allowInsecureRequests] }, // the issuer is plain http`:``}
);

// Send the user to this address. Keep verifier and state in the session.
const verifier = oidc.randomPKCECodeVerifier();
const state = oidc.randomState();
const address = oidc.buildAuthorizationUrl(config, {
  redirect_uri: ${t(i)},
  scope: ${t(a)},
  state,
  code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
});

// When the user comes back:
const tokens = await oidc.authorizationCodeGrant(config, new URL(request.url), {
  pkceCodeVerifier: verifier,
  expectedState: state,
});
console.log(tokens.claims());`),c(`nextjs`,`Next.js`,`
// npm install next-auth@beta
// Its redirect URI is https://<your host>/api/auth/callback/steward
import NextAuth from "next-auth";

export const { handlers, auth, signIn, signOut } = NextAuth({
  providers: [
    {
      id: "steward",
      name: "Steward",
      type: "oidc",
      issuer: ${t(n)},
      clientId: ${t(e.id)},
      clientSecret: process.env.STEWARD_CLIENT_SECRET,
      authorization: { params: { scope: ${t(a)} } },
    },
  ],
});`),c(`python`,`Python`,`
# pip install authlib flask requests
import os
from authlib.integrations.flask_client import OAuth
from flask import Flask, session

app = Flask(__name__)
app.secret_key = os.environ["FLASK_SECRET_KEY"]
steward = OAuth(app).register(
    "steward",
    client_id=${t(e.id)},
    client_secret=os.environ["STEWARD_CLIENT_SECRET"],
    server_metadata_url=${t(n+`/.well-known/openid-configuration`)},
    client_kwargs={"scope": ${t(a)}, "code_challenge_method": "S256"},
)

@app.get("/login")
def login():
    return steward.authorize_redirect(${t(i)})

@app.get("/callback")
def callback():
    session["user"] = steward.authorize_access_token()["userinfo"]
    return session["user"]`),c(`go`,`Go`,`
// go get github.com/coreos/go-oidc/v3/oidc golang.org/x/oauth2
provider, err := oidc.NewProvider(ctx, ${t(n)})
if err != nil {
	return err
}
config := oauth2.Config{
	ClientID:     ${t(e.id)},
	ClientSecret: os.Getenv("STEWARD_CLIENT_SECRET"),
	Endpoint:     provider.Endpoint(),
	RedirectURL:  ${t(i)},
	Scopes:       []string{${e.scopes.map(e=>t(e)).join(`, `)}},
}

// Send the user to this address. Keep verifier and state in the session.
verifier := oauth2.GenerateVerifier()
address := config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier))

// When the user comes back:
token, err := config.Exchange(ctx, r.FormValue("code"), oauth2.VerifierOption(verifier))`)),e.grant_types.includes(`authorization_code`)&&!r&&(c(`browser`,`Browser`,`
// npm install oidc-client-ts
import { UserManager } from "oidc-client-ts";

const users = new UserManager({
  authority: ${t(n)},
  client_id: ${t(e.id)},
  redirect_uri: ${t(i)},
  scope: ${t(a)},
});

// The button "Sign in":
await users.signinRedirect();

// On the page of the redirect URI:
const user = await users.signinCallback();
console.log(user.profile);`),c(`react`,`React`,`
// npm install react-oidc-context oidc-client-ts
import { AuthProvider, useAuth } from "react-oidc-context";

const settings = {
  authority: ${t(n)},
  client_id: ${t(e.id)},
  redirect_uri: ${t(i)},
  scope: ${t(a)},
};

export const App = () => <AuthProvider {...settings}><SignIn /></AuthProvider>;

function SignIn() {
  const auth = useAuth();
  if (auth.isAuthenticated) return <p>Hello {auth.user?.profile.name}</p>;
  return <button onClick={() => auth.signinRedirect()}>Sign in</button>;
}`)),e.grant_types.includes(`client_credentials`)&&c(`service`,`As itself (curl)`,`
curl ${w(n+`/oauth/token`)} \\
  -u ${w(e.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=client_credentials \\
  --data-urlencode ${w(`scope=`+e.scopes.filter(e=>e.includes(`:`)).join(` `))}`),e.grant_types.includes(T)&&c(`device`,`Device code (curl)`,`
# Show user_code and verification_uri of the answer to the user.
curl ${w(n+`/device_authorization`)} \\
  -d client_id=${w(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  --data-urlencode ${w(`scope=`+a)}

# Then ask for the tokens every few seconds, as "interval" says.
curl ${w(n+`/oauth/token`)} \\
  -d client_id=${w(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  -d grant_type=${T} \\
  -d device_code="$DEVICE_CODE"`);let l={OIDC_ISSUER:n,OIDC_CLIENT_ID:e.id,...r?{OIDC_CLIENT_SECRET:`<the secret>`}:{},OIDC_REDIRECT_URI:i,OIDC_SCOPES:a};return c(`env`,`Environment`,Object.entries(l).map(([e,n])=>`${e}=${t(n)}`).join(`
`)),s}var P=p(`<span class="fault"> </span>`),F=p(`<span class="hint good">This address can be used.</span>`),I=p(`<div class="field"><div class="row uri"><input class="input grow mono" placeholder="https://app.example.com/callback" autocomplete="off" spellcheck="false" inputmode="url"/> <button type="button" class="btn plain square"><!></button></div> <span role="status"><!></span></div>`),L=p(`<div><button type="button" class="btn tiny"><!>Add address</button></div>`),R=p(`<fieldset><legend> </legend> <p class="small soft"> </p> <!> <!></fieldset>`);function z(d,p){let w=b();m(p,!0);let T=h(p,`uris`,15),E=h(p,`fault`,3,()=>``),D=(e,t)=>e?k(e,p.type)||E()(t):``;var O=R(),A=S(O),j=u(A,!0),M=C(A,2),N=u(M,!0),z=C(M,2);c(z,17,T,l,(t,r,c)=>{let l=o(()=>D(f(r),c));var d=I(),m=S(d),h=S(m);a(h);var b=C(h,2),E=S(b);y(E,{name:`close`}),i(b),i(m);var O=C(m,2),k=S(O),A=e=>{var t=P(),n=u(t,!0);_(()=>x(n,f(l))),v(e,t)},j=e=>{var t=F();v(e,t)};e(k,e=>{f(l)?e(A):f(r)&&e(j,1)}),i(O),i(d),_(()=>{s(h,`name`,p.name),s(h,`aria-label`,`${p.label} ${c+1}`),s(h,`aria-invalid`,f(l)?`true`:void 0),s(h,`aria-describedby`,`${w}-${c}`),s(b,`aria-label`,`Remove ${p.label} ${c+1}`),s(O,`id`,`${w}-${c}`)}),n(h,()=>T()[c],e=>T(T()[c]=e,!0)),g(`click`,b,()=>T(T().filter((e,t)=>t!==c))),v(t,d)});var B=C(z,2),V=e=>{var t=L(),n=S(t),a=S(n);y(a,{name:`plus`}),r(),i(n),i(t),g(`click`,n,()=>T([...T(),``])),v(e,t)};e(B,e=>{T().length<100&&e(V)}),i(O),_(()=>{x(j,p.label),x(N,p.hint)}),v(d,O),t()}d([`click`]);export{E as a,k as c,j as i,O as n,N as o,A as r,M as s,z as t};