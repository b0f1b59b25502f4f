import{Ct as e,Et as t,H as n,Jt as r,K as i,Lt as a,Nt as o,Ot as s,Pt as c,Q as l,U as u,Ut as d,Vt as f,Wt as p,_t as m,et as h,ft as g,gt as _,ht as v,jt as y,kt as b,pt as x,qt as S,tt as C,u as w,wt as T,xt as E,yt as D,zt as O}from"./index-BMbnJv3m.js";import{p as k}from"./Show-mJrxJCeH.js";var A=`urn:ietf:params:oauth:grant-type:device_code`,j=[{name:`web`,label:`Web application`,text:`Runs on a server, which can keep a secret`,type:`confidential`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`spa`,label:`Single-page, mobile or desktop app`,text:`Runs on devices of its users: no secret, PKCE instead`,type:`public`,grants:[`authorization_code`,`refresh_token`],redirects:!0},{name:`service`,label:`Service`,text:`Calls the API as itself, without a user`,type:`confidential`,grants:[`client_credentials`],redirects:!1},{name:`device`,label:`Command line or device`,text:`Shows a code, which the user enters in a browser elsewhere`,type:`public`,grants:[A,`refresh_token`],redirects:!1}],M={authorization_code:`Sign-in by redirect`,refresh_token:`Refresh tokens`,client_credentials:`As itself`,[A]:`Device code`},N=e=>M[e]??e,P=e=>[...new Set(e.map(e=>e.trim()).filter(Boolean))];function F(e,t,n){let r=e.checked?.[t]?.indexOf(n.trim())??-1;return r<0?void 0:e.field(`${t}[${r}]`)}var I=e=>e.link.replace(/\/console\/oauth\/.*$/,``);function L(e){let t=e.redirect_uris[0];if(!t||!e.grant_types.includes(`authorization_code`))return;let n=[...crypto.getRandomValues(new Uint8Array(43))].map(e=>`ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_`[e%64]).join(``),r={response_type:`code`,client_id:e.id,redirect_uri:t,scope:e.scopes.join(` `),state:`console`,code_challenge:n,code_challenge_method:`S256`};return`/authorize?`+new URLSearchParams(r)}function R(e){let t=JSON.stringify,n=I(e),r=e.client_type===`confidential`,i=e.redirect_uris[0]??`https://app.example.com/callback`,a=e.scopes.join(` `),o=n.startsWith(`http:`)?`
  undefined,
  { execute: [oidc.allowInsecureRequests] }, // the issuer is plain http`:``,s=[],c=(e,t,n)=>s.push({name:e,label:t,text:n.trim()});e.grant_types.includes(`authorization_code`)&&r&&(c(`node`,`Node.js`,`
// npm install openid-client
import * as oidc from "openid-client";

const config = await oidc.discovery(
  new URL(${t(n)}),
  ${t(e.id)},
  process.env.STEWARD_CLIENT_SECRET,${o}
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
curl ${k(n+`/oauth/token`)} \\
  -u ${k(e.id)}:"$STEWARD_CLIENT_SECRET" \\
  -d grant_type=client_credentials \\
  --data-urlencode ${k(`scope=`+e.scopes.filter(e=>e.includes(`:`)).join(` `))}`),e.grant_types.includes(A)&&c(`device`,`Device code (curl)`,`
# Show user_code and verification_uri of the answer to the user.
curl ${k(n+`/device_authorization`)} \\
  -d client_id=${k(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  --data-urlencode ${k(`scope=`+a)}

# Then ask for the tokens every few seconds, as "interval" says.
curl ${k(n+`/oauth/token`)} \\
  -d client_id=${k(e.id)}${r?` -d client_secret="$STEWARD_CLIENT_SECRET"`:``} \\
  -d grant_type=${A} \\
  -d device_code="$DEVICE_CODE"`);let l={OIDC_ISSUER:n,OIDC_CLIENT_ID:e.id,...r?{OIDC_CLIENT_SECRET:`<the secret>`}:{},OIDC_REDIRECT_URI:i,OIDC_SCOPES:a};return c(`env`,`Environment`,Object.entries(l).map(([e,n])=>`${e}=${t(n)}`).join(`
`)),s}var z=class{#e=O();get problem(){return t(this.#e)}set problem(e){a(this.#e,e)}#t=O();get checked(){return t(this.#t)}set checked(e){a(this.#t,e)}field(e){return this.problem?.field(e)??``}};function B(e,t){let n=new z;return b(()=>{let r=e(),i=new AbortController,a=setTimeout(async()=>{let e=await V(t(r,i.signal));i.signal.aborted||e&&(u(e)||e.status===401)||(n.problem=e,n.checked=r)},250);return()=>{clearTimeout(a),i.abort()}}),n}async function V(e){try{await e}catch(e){return n(e)}}var H=D(`<span class="fault"> </span>`),U=D(`<span class="hint good">This address can be used.</span>`),W=D(`<div class="field"><div class="row uri"><input class="input grow mono" placeholder="https://app.example.com/callback" autocomplete="off" spellcheck="false" inputmode="url"/> <button type="button" class="btn plain square"><!></button></div> <span role="status"><!></span></div>`),G=D(`<div><button type="button" class="btn tiny"><!>Add address</button></div>`),K=D(`<fieldset><legend> </legend> <p class="small soft"> </p> <!> <!></fieldset>`);function q(e,n){let a=E();p(n,!0);let u=i(n,`uris`,15);var b=K(),D=y(b),O=o(D,!0),k=c(D,2),A=o(k,!0),j=c(k,2);g(j,17,u,x,(e,i,d)=>{let p=f(()=>n.verdict(t(i)));var g=W(),b=y(g),x=y(b);h(x);var S=c(x,2),E=y(S);w(E,{name:`close`}),r(S),r(b);var D=c(b,2),O=y(D),k=e=>{var n=H(),r=o(n,!0);s(()=>_(r,t(p))),m(e,n)},A=e=>{var t=U();m(e,t)};v(O,e=>{t(p)?e(k):t(p)===``&&e(A,1)}),r(D),r(g),s(()=>{C(x,`name`,n.name),C(x,`aria-label`,`${n.label} ${d+1}`),C(x,`aria-invalid`,t(p)?`true`:void 0),C(x,`aria-describedby`,`${a}-${d}`),C(S,`aria-label`,`Remove ${n.label} ${d+1}`),C(D,`id`,`${a}-${d}`)}),l(x,()=>u()[d],e=>u(u()[d]=e,!0)),T(`click`,S,()=>u(u().filter((e,t)=>t!==d))),m(e,g)});var M=c(j,2),N=e=>{var t=G(),n=y(t),i=y(n);w(i,{name:`plus`}),S(),r(n),r(t),T(`click`,n,()=>u([...u(),``])),m(e,t)};v(M,e=>{u().length<100&&e(N)}),r(b),s(()=>{_(O,n.label),_(A,n.hint)}),m(e,b),d()}e([`click`]);export{I as a,L as c,N as i,F as l,B as n,j as o,P as r,R as s,q as t};