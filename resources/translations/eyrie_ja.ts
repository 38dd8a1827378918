<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="ja" sourcelanguage="en">
<context>
    <name>About</name>
    <message>
        <source>A local chat that shows speculative decoding at work: what the EAGLE head drafts, and what the model accepts.</source>
        <translation>投機的デコードの働きを目に見せるローカルチャットです。EAGLE ヘッドが何をドラフトし、モデルが何を受理したかがわかります。</translation>
    </message>
    <message>
        <source>About Eyrie</source>
        <translation>Eyrie について</translation>
    </message>
</context>
<context>
    <name>Chats</name>
    <message numerus="yes">
        <source>%n chats could be saved from it.</source>
        <translation>
            <numerusform>%n 件のチャットを救出できました。</numerusform>
        </translation>
    </message>
    <message>
        <source>&amp;Delete chat</source>
        <translation>チャットを削除(&amp;D)</translation>
    </message>
    <message>
        <source>&amp;Export chat…</source>
        <translation>チャットを書き出す(&amp;E)…</translation>
    </message>
    <message>
        <source>&amp;Rename chat</source>
        <translation>チャットの名前を変更(&amp;R)</translation>
    </message>
    <message>
        <source>A chat in this file is not complete: {error!r}.</source>
        <translation>このファイルのチャットの一つが不完全です: {error!r}。</translation>
    </message>
    <message>
        <source>A comparison of a chat in this file comes twice.</source>
        <translation>このファイルのチャットに、同じ比較が二度含まれています。</translation>
    </message>
    <message>
        <source>A part of the chats cannot be read ({error}). Start Eyrie again to have it checked.</source>
        <translation>チャットの一部を読めません ({error})。Eyrie を再起動すると検査されます。</translation>
    </message>
    <message>
        <source>Another export or import is not finished yet. Wait for it, or cancel it.</source>
        <translation>別のエクスポートまたはインポートがまだ終わっていません。終わるのを待つか、中止してください。</translation>
    </message>
    <message>
        <source>Chat: {name}</source>
        <translation>チャット: {name}</translation>
    </message>
    <message>
        <source>Chat: {name}, pinned</source>
        <translation>チャット: {name}、ピン留め</translation>
    </message>
    <message>
        <source>Chats</source>
        <translation>チャット</translation>
    </message>
    <message>
        <source>Chats cannot be kept in this session: {error}. What is written now is lost when Eyrie ends.</source>
        <translation>このセッションではチャットを保存できません: {error}。今書いたものは、Eyrie を終了すると失われます。</translation>
    </message>
    <message>
        <source>Chats with everything (*.json)</source>
        <translation>すべてを含むチャット (*.json)</translation>
    </message>
    <message>
        <source>Choose another file or folder.</source>
        <translation>別のファイルかフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>Export all chats</source>
        <translation>すべてのチャットを書き出す</translation>
    </message>
    <message>
        <source>Export chat</source>
        <translation>チャットを書き出す</translation>
    </message>
    <message>
        <source>Exported to {path}</source>
        <translation>{path} に書き出しました</translation>
    </message>
    <message>
        <source>Exporting “{name}”…</source>
        <translation>「{name}」をエクスポートしています…</translation>
    </message>
    <message>
        <source>Folder: {name}, folded</source>
        <translation>フォルダー: {name}、折りたたみ</translation>
    </message>
    <message>
        <source>Folder: {name}, open</source>
        <translation>フォルダー: {name}、展開</translation>
    </message>
    <message>
        <source>Import chats</source>
        <translation>チャットを読み込む</translation>
    </message>
    <message>
        <source>Importing “{name}”…</source>
        <translation>「{name}」をインポートしています…</translation>
    </message>
    <message>
        <source>Markdown to read (*.md)</source>
        <translation>読むための Markdown (*.md)</translation>
    </message>
    <message>
        <source>Move to a &amp;new folder…</source>
        <translation>新しいフォルダーへ移動(&amp;N)…</translation>
    </message>
    <message>
        <source>Move to f&amp;older</source>
        <translation>フォルダーへ移動(&amp;O)</translation>
    </message>
    <message>
        <source>Name of the folder:</source>
        <translation>フォルダーの名前:</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>新しいチャット</translation>
    </message>
    <message>
        <source>New folder</source>
        <translation>新しいフォルダー</translation>
    </message>
    <message>
        <source>No chat could be read from it.</source>
        <translation>チャットは一つも読み出せませんでした。</translation>
    </message>
    <message>
        <source>No folder</source>
        <translation>フォルダーなし</translation>
    </message>
    <message>
        <source>Nothing found</source>
        <translation>見つかりません</translation>
    </message>
    <message>
        <source>Older</source>
        <translation>それ以前</translation>
    </message>
    <message>
        <source>P&amp;in chat</source>
        <translation>チャットをピン留め(&amp;I)</translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation>ピン留め</translation>
    </message>
    <message>
        <source>Previous 30 days</source>
        <translation>過去 30 日間</translation>
    </message>
    <message>
        <source>Previous 7 days</source>
        <translation>過去 7 日間</translation>
    </message>
    <message>
        <source>Reply</source>
        <translation>応答</translation>
    </message>
    <message>
        <source>S&amp;ystem prompt and settings of this chat…</source>
        <translation>このチャットのシステムプロンプトと設定(&amp;Y)…</translation>
    </message>
    <message>
        <source>Search chats</source>
        <translation>チャットを検索</translation>
    </message>
    <message>
        <source>Search titles and messages of all chats</source>
        <translation>すべてのチャットのタイトルとメッセージを検索</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>システムプロンプト</translation>
    </message>
    <message>
        <source>The chat could not be exported: {reason}.</source>
        <translation>チャットを書き出せませんでした: {reason}。</translation>
    </message>
    <message>
        <source>The chats cannot be saved: {error}. They are kept in memory and saved as soon as it works.</source>
        <translation>チャットを保存できません: {error}。メモリーに保持し、可能になりしだい保存します。</translation>
    </message>
    <message>
        <source>The chats could not be exported: {reason}.</source>
        <translation>チャットを書き出せませんでした: {reason}。</translation>
    </message>
    <message>
        <source>The chats could not be imported: {reason}.</source>
        <translation>チャットを読み込めませんでした: {reason}。</translation>
    </message>
    <message>
        <source>The chats were written by a newer version of Eyrie. They can be read here, but nothing new is kept. Update Eyrie, or choose another data folder with --data-dir.</source>
        <translation>これらのチャットは新しいバージョンの Eyrie で書かれています。ここで読めますが、新しい内容は保存されません。Eyrie を更新するか、--data-dir で別のデータフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>The chats' database cannot be written ({error}): the chats can be read, but nothing new is kept. See that {file} and its folder can be written, or choose another data folder with --data-dir.</source>
        <translation>チャットのデータベースに書き込めません ({error})。チャットは読めますが、新しい内容は保存されません。{file} とそのフォルダーに書き込めるようにするか、--data-dir で別のデータフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>The chats' database is damaged ({error}), so what is written now is not saved. Copy what you need and start Eyrie again: it repairs the database.</source>
        <translation>チャットのデータベースが破損しているため ({error})、いま書かれる内容は保存されません。必要なものをコピーして Eyrie を再起動すると、データベースが修復されます。</translation>
    </message>
    <message>
        <source>The chats' database was damaged. {saved} The damaged file is kept as {file} in the data folder; if chats are missing, keep it for a repair.</source>
        <translation>チャットのデータベースが壊れていました。{saved} 壊れたファイルは {file} としてデータフォルダーに残しています。足りないチャットがあれば、修復のために保管してください。</translation>
    </message>
    <message>
        <source>The export was cancelled; nothing was written.</source>
        <translation>エクスポートを中止しました。何も書き込まれていません。</translation>
    </message>
    <message>
        <source>The import was cancelled; no chat was added.</source>
        <translation>インポートを中止しました。チャットは追加されていません。</translation>
    </message>
    <message>
        <source>The messages of a chat in this file do not make a tree.</source>
        <translation>このファイルのチャットのメッセージは、ツリーになっていません。</translation>
    </message>
    <message>
        <source>Today</source>
        <translation>今日</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>元に戻す</translation>
    </message>
    <message>
        <source>Yesterday</source>
        <translation>昨日</translation>
    </message>
    <message>
        <source>You</source>
        <translation>あなた</translation>
    </message>
    <message>
        <source>You are editing an earlier prompt. What followed it stays as another version.</source>
        <translation>以前のプロンプトを編集しています。それに続いていた内容は、別の版として残ります。</translation>
    </message>
    <message>
        <source>a reply is being written</source>
        <translation>応答を書いています</translation>
    </message>
    <message>
        <source>it has no messages yet</source>
        <translation>まだメッセージがありません</translation>
    </message>
    <message>
        <source>the chats cannot be saved now</source>
        <translation>今はチャットを保存できません</translation>
    </message>
    <message>
        <source>they were written by a newer version of Eyrie, which keeps them differently. Update Eyrie, or choose another data folder with --data-dir</source>
        <translation>保存形式の異なる新しいバージョンの Eyrie で書かれています。Eyrie を更新するか、--data-dir で別のデータフォルダーを選んでください</translation>
    </message>
    <message numerus="yes">
        <source>{count} chats exported to {path}</source>
        <translation>
            <numerusform>{count} 件のチャットを {path} に書き出しました</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} chats imported</source>
        <translation>
            <numerusform>{count} 件のチャットを読み込みました</numerusform>
        </translation>
    </message>
    <message>
        <source>{count} found</source>
        <translation>{count} 件見つかりました</translation>
    </message>
    <message>
        <source>{file} does not hold a list of chats.</source>
        <translation>{file} にはチャットの一覧が含まれていません。</translation>
    </message>
    <message>
        <source>{file} does not hold chats of Eyrie.</source>
        <translation>{file} には Eyrie のチャットが含まれていません。</translation>
    </message>
    <message>
        <source>{file} is not a JSON file of chats ({error}).</source>
        <translation>{file} はチャットの JSON ファイルではありません ({error})。</translation>
    </message>
    <message>
        <source>{file} was written by a newer version of Eyrie. Update Eyrie to read it.</source>
        <translation>{file} は新しいバージョンの Eyrie で書かれています。読むには Eyrie を更新してください。</translation>
    </message>
    <message>
        <source>“{chat}” cannot be read ({error}). Start Eyrie again to have it checked.</source>
        <translation>「{chat}」を読めません ({error})。Eyrie を再起動すると検査されます。</translation>
    </message>
    <message>
        <source>“{chat}” deleted</source>
        <translation>「{chat}」を削除しました</translation>
    </message>
    <message>
        <source>“{field}” of a chat or message in this file is not what it should be.</source>
        <translation>このファイルのチャットまたはメッセージの「{field}」が正しくありません。</translation>
    </message>
</context>
<context>
    <name>Commands</name>
    <message>
        <source>Chat</source>
        <translation>チャット</translation>
    </message>
    <message>
        <source>Commands and chats</source>
        <translation>コマンドとチャット</translation>
    </message>
    <message>
        <source>Find a command</source>
        <translation>コマンドを検索</translation>
    </message>
    <message>
        <source>Type a command or a chat</source>
        <translation>コマンドかチャットを入力</translation>
    </message>
    <message>
        <source>Type a command or the title of a chat</source>
        <translation>コマンドかチャットのタイトルを入力</translation>
    </message>
</context>
<context>
    <name>Compare</name>
    <message numerus="yes">
        <source>%n heads are on this computer.</source>
        <translation>
            <numerusform>このコンピューターには %n 個のヘッドがあります。</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n more can be downloaded in Models.</source>
        <translation>
            <numerusform>「モデル」からさらに %n 個をダウンロードできます。</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n more lines were left out.</source>
        <translation>
            <numerusform>ほかに %n 行を省きました。</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n of {count} texts differ</source>
        <translation>
            <numerusform>{count} 件中 %n 件のテキストが異なります</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n prompts</source>
        <translation>
            <numerusform>%n 件のプロンプト</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n prompts from {file}.</source>
        <translation>
            <numerusform>{file} から %n 件のプロンプト。</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n repeats</source>
        <translation>
            <numerusform>%n 回の繰り返し</numerusform>
        </translation>
    </message>
    <message>
        <source>&amp;Copy the picture</source>
        <translation>画像をコピー(&amp;C)</translation>
    </message>
    <message>
        <source>&amp;New comparison</source>
        <translation>新しい比較(&amp;N)</translation>
    </message>
    <message>
        <source>&amp;Save the picture…</source>
        <translation>画像を保存(&amp;S)…</translation>
    </message>
    <message>
        <source>&amp;Start</source>
        <translation>開始(&amp;S)</translation>
    </message>
    <message numerus="yes">
        <source>, %n of them by ties within rounding</source>
        <translation>
            <numerusform>、うち %n 件は丸め誤差内の同点によるもの</numerusform>
        </translation>
    </message>
    <message>
        <source>0 takes the likeliest token each time</source>
        <translation>0 は毎回もっとも確率の高いトークンを選びます</translation>
    </message>
    <message>
        <source>A file</source>
        <translation>ファイル</translation>
    </message>
    <message>
        <source>A is faster: its speed over B's</source>
        <translation>A の方が速い: B に対する速度比</translation>
    </message>
    <message>
        <source>A is slower: its speed over B's</source>
        <translation>A の方が遅い: B に対する速度比</translation>
    </message>
    <message>
        <source>A over B</source>
        <translation>A ÷ B</translation>
    </message>
    <message>
        <source>A penalty forbids one of the two tokens there: a real difference.</source>
        <translation>ペナルティがそこで二つのトークンの一方を禁じています。本当の違いです。</translation>
    </message>
    <message>
        <source>A real difference: {side}'s token is ahead, the two lie {apart}; rounding accounts for {noise}.</source>
        <translation>本当の違いです。{side} のトークンが上回り、差は{apart}です。丸め誤差で説明できるのは {noise} です。</translation>
    </message>
    <message>
        <source>A reply broke off.</source>
        <translation>応答が途切れました。</translation>
    </message>
    <message numerus="yes">
        <source>A side needs another head: the model is loaded again %n times.</source>
        <translation>
            <numerusform>一方に別のヘッドが必要です。モデルを %n 回読み込み直します。</numerusform>
        </translation>
    </message>
    <message>
        <source>A tie within rounding: the two lie {apart}, and rounding accounts for {noise} on this machine.</source>
        <translation>丸め誤差内の同点です。差は{apart}で、このマシンの丸め誤差は {noise} です。</translation>
    </message>
    <message>
        <source>A tie: the target's logits of the two are equal.</source>
        <translation>同点です。ターゲットモデルの二つのロジットは等しい値です。</translation>
    </message>
    <message>
        <source>A {a}, B {b} tokens per second</source>
        <translation>A {a}、B {b} トークン/秒</translation>
    </message>
    <message>
        <source>A, tokens/s</source>
        <translation>A、トークン/秒</translation>
    </message>
    <message>
        <source>A, τ</source>
        <translation>A、τ</translation>
    </message>
    <message>
        <source>About the same: A's speed over B's</source>
        <translation>ほぼ同じ: A の B に対する速度比</translation>
    </message>
    <message>
        <source>After “…{text}”</source>
        <translation>「…{text}」の後</translation>
    </message>
    <message numerus="yes">
        <source>All %n prompts of this chat</source>
        <translation>
            <numerusform>このチャットの %n 件のプロンプトすべて</numerusform>
        </translation>
    </message>
    <message>
        <source>All files (*)</source>
        <translation>すべてのファイル (*)</translation>
    </message>
    <message>
        <source>All prompts of this chat</source>
        <translation>このチャットのすべてのプロンプト</translation>
    </message>
    <message>
        <source>Another folder…</source>
        <translation>別のフォルダー…</translation>
    </message>
    <message>
        <source>As loaded (none)</source>
        <translation>読み込みどおり (なし)</translation>
    </message>
    <message>
        <source>As loaded ({head})</source>
        <translation>読み込みどおり ({head})</translation>
    </message>
    <message>
        <source>At the very beginning</source>
        <translation>冒頭</translation>
    </message>
    <message>
        <source>Automatic ({method})</source>
        <translation>自動 ({method})</translation>
    </message>
    <message>
        <source>B, tokens/s</source>
        <translation>B、トークン/秒</translation>
    </message>
    <message>
        <source>B, τ</source>
        <translation>B、τ</translation>
    </message>
    <message>
        <source>Both sides answer the same prompts, one reply at a time. Then you see how much faster one is and whether the texts are the same.</source>
        <translation>両側が同じプロンプトに、一度に一つずつ応答します。そのあと、どちらがどれだけ速いか、テキストが同じかどうかがわかります。</translation>
    </message>
    <message>
        <source>Both sides are the same: this shows how much a repeat varies.</source>
        <translation>両側が同じ設定です。繰り返しがどれだけばらつくかがわかります。</translation>
    </message>
    <message>
        <source>Broke off</source>
        <translation>途切れました</translation>
    </message>
    <message>
        <source>Choose a file with prompts.</source>
        <translation>プロンプトのファイルを選んでください。</translation>
    </message>
    <message>
        <source>Choose a file…</source>
        <translation>ファイルを選ぶ…</translation>
    </message>
    <message>
        <source>Choose another head for this side.</source>
        <translation>この側に別のヘッドを選んでください。</translation>
    </message>
    <message>
        <source>Choose another method or head for it.</source>
        <translation>別の方式かヘッドを選んでください。</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>閉じる</translation>
    </message>
    <message>
        <source>Compare again.</source>
        <translation>もう一度比較してください。</translation>
    </message>
    <message>
        <source>Compare two settings</source>
        <translation>二つの設定を比較</translation>
    </message>
    <message>
        <source>Comparisons kept with this chat</source>
        <translation>このチャットに保存された比較</translation>
    </message>
    <message>
        <source>Copy as &amp;text</source>
        <translation>テキストとしてコピー(&amp;T)</translation>
    </message>
    <message>
        <source>Decode speed; the time to read the prompt is left out.</source>
        <translation>デコードの速度。プロンプトを読む時間は含みません。</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>削除</translation>
    </message>
    <message>
        <source>Delete the chosen comparison</source>
        <translation>選んだ比較を削除</translation>
    </message>
    <message>
        <source>EAGLE</source>
        <translation>EAGLE</translation>
    </message>
    <message>
        <source>Eyrie compared two settings</source>
        <translation>Eyrie が二つの設定を比較しました</translation>
    </message>
    <message>
        <source>Finished</source>
        <translation>完了</translation>
    </message>
    <message>
        <source>Finished, context full</source>
        <translation>完了、コンテキストが満杯</translation>
    </message>
    <message>
        <source>Finished, length limit reached</source>
        <translation>完了、長さの上限に到達</translation>
    </message>
    <message>
        <source>First difference at token {number}</source>
        <translation>最初の違いはトークン {number}</translation>
    </message>
    <message>
        <source>Folder of a head</source>
        <translation>ヘッドのフォルダー</translation>
    </message>
    <message>
        <source>For both sides</source>
        <translation>両側に共通</translation>
    </message>
    <message>
        <source>From one repeat: more of them would tell how exact it is.</source>
        <translation>繰り返しは 1 回です。増やすと、どれだけ正確かがわかります。</translation>
    </message>
    <message>
        <source>Head</source>
        <translation>ヘッド</translation>
    </message>
    <message numerus="yes">
        <source>Identical: all %n tokens are the same</source>
        <translation>
            <numerusform>同一: %n 個のトークンがすべて同じ</numerusform>
        </translation>
    </message>
    <message>
        <source>Identical: the texts of all {count} prompts</source>
        <translation>同一: {count} 件のプロンプトすべてのテキスト</translation>
    </message>
    <message>
        <source>It was stopped: this is what was complete by then.</source>
        <translation>停止されました。それまでに完了した内容です。</translation>
    </message>
    <message>
        <source>JSON lines with “turns” (or “prompt”, “text”), or a text with one prompt a line</source>
        <translation>“turns” (または “prompt”、“text”) を持つ JSON Lines、または 1 行に 1 プロンプトのテキスト</translation>
    </message>
    <message>
        <source>Kept with this chat</source>
        <translation>このチャットに保存</translation>
    </message>
    <message>
        <source>Length of the reply, end token included.</source>
        <translation>応答の長さ。終了トークンを含みます。</translation>
    </message>
    <message>
        <source>Line {number} has no “turns” with a text.</source>
        <translation>{number} 行目に、テキストを持つ “turns” がありません。</translation>
    </message>
    <message>
        <source>Line {number} is no JSON.</source>
        <translation>{number} 行目は JSON ではありません。</translation>
    </message>
    <message>
        <source>Lists of prompts (*.jsonl *.json *.ndjson *.txt *.md)</source>
        <translation>プロンプトの一覧 (*.jsonl *.json *.ndjson *.txt *.md)</translation>
    </message>
    <message>
        <source>Load a model first, or choose a head's folder.</source>
        <translation>先にモデルを読み込むか、ヘッドのフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>Load a model, then compare again.</source>
        <translation>モデルを読み込んでから、もう一度比較してください。</translation>
    </message>
    <message>
        <source>Loading the head of this side…</source>
        <translation>この側のヘッドを読み込んでいます…</translation>
    </message>
    <message>
        <source>Longest reply (tokens)</source>
        <translation>応答の最大長 (トークン)</translation>
    </message>
    <message>
        <source>Look for other heads on this computer…</source>
        <translation>このコンピューターのほかのヘッドを探す…</translation>
    </message>
    <message>
        <source>Looking at the logits where the texts part…</source>
        <translation>テキストが分かれる箇所のロジットを調べています…</translation>
    </message>
    <message>
        <source>Looking for heads on this computer…</source>
        <translation>このコンピューターのヘッドを探しています…</translation>
    </message>
    <message>
        <source>Median of {count} repeats, which lie between {low} and {high}.</source>
        <translation>{count} 回の繰り返しの中央値。範囲は {low} から {high} です。</translation>
    </message>
    <message>
        <source>Method</source>
        <translation>方式</translation>
    </message>
    <message>
        <source>No model is loaded.</source>
        <translation>モデルが読み込まれていません。</translation>
    </message>
    <message>
        <source>No model is loaded. Load one to compare.</source>
        <translation>モデルが読み込まれていません。比較するには読み込んでください。</translation>
    </message>
    <message>
        <source>No other head of this model is on this computer.</source>
        <translation>このモデルのほかのヘッドは、このコンピューターにありません。</translation>
    </message>
    <message>
        <source>No pair of replies has speeds to compare</source>
        <translation>速度を比べられる応答の組がありません</translation>
    </message>
    <message>
        <source>Not compared</source>
        <translation>比較していません</translation>
    </message>
    <message>
        <source>Not run</source>
        <translation>未実行</translation>
    </message>
    <message>
        <source>Nothing was compared yet</source>
        <translation>まだ何も比較していません</translation>
    </message>
    <message>
        <source>One token for each pass of the target: what speed is measured against.</source>
        <translation>ターゲットモデルの 1 パスにつき 1 トークン。速度はこれを基準に測ります。</translation>
    </message>
    <message>
        <source>Only the first {most} of its {count} prompts are used.</source>
        <translation>{count} 件のうち、最初の {most} 件のプロンプトだけを使います。</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>開く</translation>
    </message>
    <message>
        <source>Open the chosen comparison</source>
        <translation>選んだ比較を開く</translation>
    </message>
    <message>
        <source>Over {count} prompts, from {low} to {high} by prompt.</source>
        <translation>{count} 件のプロンプトについて、プロンプトごとに {low} から {high}。</translation>
    </message>
    <message>
        <source>Pause drafting while it loses, as in chats</source>
        <translation>チャットと同じく、遅くなる間はドラフトを休止する</translation>
    </message>
    <message>
        <source>Plain decoding</source>
        <translation>通常デコード</translation>
    </message>
    <message>
        <source>Plain decoding (EAGLE off)</source>
        <translation>通常デコード (EAGLE オフ)</translation>
    </message>
    <message>
        <source>Progress of the comparison</source>
        <translation>比較の進み具合</translation>
    </message>
    <message>
        <source>Prompt</source>
        <translation>プロンプト</translation>
    </message>
    <message>
        <source>Prompt {number} of {count}: {text}</source>
        <translation>プロンプト {number}/{count}: {text}</translation>
    </message>
    <message>
        <source>Prompt {number}: {verdict}</source>
        <translation>プロンプト {number}: {verdict}</translation>
    </message>
    <message>
        <source>Prompt: {text}</source>
        <translation>プロンプト: {text}</translation>
    </message>
    <message>
        <source>Prompts</source>
        <translation>プロンプト</translation>
    </message>
    <message>
        <source>Prompts, one a line</source>
        <translation>プロンプト、1 行に 1 件</translation>
    </message>
    <message>
        <source>Reading the prompt…</source>
        <translation>プロンプトを読んでいます…</translation>
    </message>
    <message>
        <source>Repeats</source>
        <translation>繰り返し</translation>
    </message>
    <message>
        <source>Reply {number} of {total}: side {side}</source>
        <translation>応答 {number}/{total}: {side} 側</translation>
    </message>
    <message>
        <source>Reply: {side}</source>
        <translation>応答: {side}</translation>
    </message>
    <message>
        <source>Restart the engine, then compare again.</source>
        <translation>エンジンを再起動してから、もう一度比較してください。</translation>
    </message>
    <message>
        <source>Result of the comparison</source>
        <translation>比較の結果</translation>
    </message>
    <message>
        <source>Results by prompt</source>
        <translation>プロンプトごとの結果</translation>
    </message>
    <message>
        <source>Run &amp;again</source>
        <translation>もう一度実行(&amp;A)</translation>
    </message>
    <message>
        <source>S&amp;hare</source>
        <translation>共有(&amp;H)</translation>
    </message>
    <message>
        <source>S&amp;top</source>
        <translation>停止(&amp;T)</translation>
    </message>
    <message>
        <source>Save the picture</source>
        <translation>画像を保存</translation>
    </message>
    <message>
        <source>Saved as {path}</source>
        <translation>{path} に保存しました</translation>
    </message>
    <message>
        <source>Scroll the comparison</source>
        <translation>比較をスクロール</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>シード</translation>
    </message>
    <message>
        <source>Side {letter}</source>
        <translation>{letter} 側</translation>
    </message>
    <message>
        <source>Some replies are short: longer ones give a steadier figure.</source>
        <translation>一部の応答が短いです。長い方が安定した値になります。</translation>
    </message>
    <message>
        <source>Some replies differ in length. Speed changes with length, so the factor is not exact.</source>
        <translation>一部の応答は長さが異なります。速度は長さで変わるため、この倍率は正確ではありません。</translation>
    </message>
    <message>
        <source>Stop the comparison</source>
        <translation>比較を停止</translation>
    </message>
    <message>
        <source>Stopped</source>
        <translation>停止しました</translation>
    </message>
    <message>
        <source>Stopped before a reply was complete. Nothing was compared.</source>
        <translation>応答が完了する前に停止しました。何も比較していません。</translation>
    </message>
    <message>
        <source>Stopping after what the engine does now…</source>
        <translation>エンジンの今の処理が済みしだい停止します…</translation>
    </message>
    <message>
        <source>Swap A and B</source>
        <translation>A と B を入れ替え</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>温度</translation>
    </message>
    <message>
        <source>Texts</source>
        <translation>テキスト</translation>
    </message>
    <message>
        <source>The engine is not running.</source>
        <translation>エンジンが動いていません。</translation>
    </message>
    <message>
        <source>The figures are in the clipboard.</source>
        <translation>数値をクリップボードにコピーしました。</translation>
    </message>
    <message>
        <source>The head in {folder} cannot be used.</source>
        <translation>{folder} のヘッドは使えません。</translation>
    </message>
    <message>
        <source>The margin is not known: {reason}</source>
        <translation>差はわかりません: {reason}</translation>
    </message>
    <message>
        <source>The model was unloaded or changed meanwhile.</source>
        <translation>その間にモデルが解放または変更されました。</translation>
    </message>
    <message>
        <source>The picture could not be saved ({reason}). Choose another folder.</source>
        <translation>画像を保存できませんでした ({reason})。別のフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>The picture is in the clipboard.</source>
        <translation>画像をクリップボードにコピーしました。</translation>
    </message>
    <message>
        <source>The same as far as both go; one reply did not reach its end</source>
        <translation>両方がある範囲では同じ。一方の応答は最後まで届いていません</translation>
    </message>
    <message>
        <source>The sides take turns as A B, B A, …; more repeats tell the spread</source>
        <translation>両側は A B、B A、… と交互に走ります。繰り返しを増やすとばらつきがわかります</translation>
    </message>
    <message>
        <source>The target itself would write {token}.</source>
        <translation>ターゲットモデル自身なら {token} と書きます。</translation>
    </message>
    <message>
        <source>The temperature is above 0: both sides draw from the target's own distribution with the same seed. They agree where each guess is checked against the drawn token, and differ by design where a method draws its guesses.</source>
        <translation>温度が 0 より大きいため、両側とも同じシードでターゲットモデル自身の分布から抽選します。推測を抽選結果のトークンと照合する方式では一致し、推測そのものを抽選する方式では仕組み上異なります。</translation>
    </message>
    <message>
        <source>The two lie {apart}. Tokens are drawn here, so a difference says nothing against either side.</source>
        <translation>差は{apart}です。ここではトークンを抽選しているため、違いがあってもどちらにも問題はありません。</translation>
    </message>
    <message>
        <source>There is no prompt to compare on.</source>
        <translation>比較するプロンプトがありません。</translation>
    </message>
    <message>
        <source>These, one a line</source>
        <translation>次のプロンプト、1 行に 1 件</translation>
    </message>
    <message>
        <source>They do not agree on which is faster.</source>
        <translation>どちらが速いかは一致していません。</translation>
    </message>
    <message>
        <source>This comparison cannot be read. Delete it, and compare again.</source>
        <translation>この比較は読めません。削除して、もう一度比較してください。</translation>
    </message>
    <message>
        <source>This model does not know the method “{method}”.</source>
        <translation>このモデルは方式「{method}」を知りません。</translation>
    </message>
    <message>
        <source>This prompt, with the chat before it</source>
        <translation>このプロンプトと、その前のチャット</translation>
    </message>
    <message>
        <source>Time from the request to the first token.</source>
        <translation>要求から最初のトークンまでの時間。</translation>
    </message>
    <message>
        <source>Tokens emitted per pass of the target.</source>
        <translation>ターゲットモデルの 1 パスあたりに出力したトークン。</translation>
    </message>
    <message>
        <source>Tokens per second of both sides</source>
        <translation>両側の毎秒トークン数</translation>
    </message>
    <message>
        <source>Undo deleting</source>
        <translation>削除を取り消す</translation>
    </message>
    <message>
        <source>Waiting for its turn</source>
        <translation>順番を待っています</translation>
    </message>
    <message>
        <source>Waiting for the engine…</source>
        <translation>エンジンを待っています…</translation>
    </message>
    <message>
        <source>What is complete is kept. Load the model again to compare once more.</source>
        <translation>完了した分は残っています。もう一度比較するには、モデルを読み込み直してください。</translation>
    </message>
    <message>
        <source>Without a setting that changes the distribution this is a fault: please report it.</source>
        <translation>分布を変える設定がないのに違うのは不具合です。報告してください。</translation>
    </message>
    <message>
        <source>Without it a method drafts all the time, also where that is slower</source>
        <translation>オフにすると、遅くなる場合でも常にドラフトします</translation>
    </message>
    <message>
        <source>Write a prompt, or choose where prompts come from.</source>
        <translation>プロンプトを書くか、プロンプトの取得元を選んでください。</translation>
    </message>
    <message>
        <source>Write one, or choose a file.</source>
        <translation>書くか、ファイルを選んでください。</translation>
    </message>
    <message>
        <source>Write or paste prompts, one a line</source>
        <translation>プロンプトを書くか貼り付けてください。1 行に 1 件</translation>
    </message>
    <message>
        <source>Writing…</source>
        <translation>書いています…</translation>
    </message>
    <message>
        <source>a few seconds left</source>
        <translation>残り数秒</translation>
    </message>
    <message>
        <source>a part of a character</source>
        <translation>文字の一部</translation>
    </message>
    <message numerus="yes">
        <source>about %n minutes left</source>
        <translation>
            <numerusform>残り約 %n 分</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>about %n seconds left</source>
        <translation>
            <numerusform>残り約 %n 秒</numerusform>
        </translation>
    </message>
    <message>
        <source>any</source>
        <translation>任意</translation>
    </message>
    <message>
        <source>at most {count} tokens</source>
        <translation>最大 {count} トークン</translation>
    </message>
    <message>
        <source>differ at {number}</source>
        <translation>{number} から異なる</translation>
    </message>
    <message>
        <source>identical</source>
        <translation>同一</translation>
    </message>
    <message>
        <source>not complete</source>
        <translation>未完了</translation>
    </message>
    <message>
        <source>off</source>
        <translation>オフ</translation>
    </message>
    <message>
        <source>on</source>
        <translation>オン</translation>
    </message>
    <message>
        <source>one of the replies had ended there.</source>
        <translation>そこで一方の応答は終わっていました。</translation>
    </message>
    <message>
        <source>prompt {number} of {total}</source>
        <translation>プロンプト {number}/{total}</translation>
    </message>
    <message>
        <source>repeat {number} of {total}</source>
        <translation>繰り返し {number}/{total}</translation>
    </message>
    <message>
        <source>seed {value}</source>
        <translation>シード {value}</translation>
    </message>
    <message>
        <source>temperature {value}</source>
        <translation>温度 {value}</translation>
    </message>
    <message>
        <source>to first token</source>
        <translation>最初のトークンまで</translation>
    </message>
    <message>
        <source>tokens</source>
        <translation>トークン</translation>
    </message>
    <message>
        <source>tokens per step (τ)</source>
        <translation>1 ステップあたりのトークン (τ)</translation>
    </message>
    <message>
        <source>tokens/s</source>
        <translation>トークン/秒</translation>
    </message>
    <message>
        <source>{a} or {b}</source>
        <translation>{a} または {b}</translation>
    </message>
    <message>
        <source>{file} cannot be read ({reason}). Choose another file.</source>
        <translation>{file} を読めません ({reason})。別のファイルを選んでください。</translation>
    </message>
    <message>
        <source>{file} holds no prompts.{reason} Choose another file.</source>
        <translation>{file} にプロンプトがありません。{reason} 別のファイルを選んでください。</translation>
    </message>
    <message>
        <source>{file} is not a text in UTF-8. Choose another file.</source>
        <translation>{file} は UTF-8 のテキストではありません。別のファイルを選んでください。</translation>
    </message>
    <message>
        <source>{file} is too large for a list of prompts. Choose a smaller file.</source>
        <translation>{file} はプロンプトの一覧としては大きすぎます。小さいファイルを選んでください。</translation>
    </message>
    <message>
        <source>{margin} logits apart</source>
        <translation>{margin} ロジット</translation>
    </message>
    <message>
        <source>{method} – not with what is loaded</source>
        <translation>{method} – 今の読み込みでは使えません</translation>
    </message>
    <message>
        <source>{method}, automatic</source>
        <translation>{method}、自動</translation>
    </message>
    <message>
        <source>{method}, head {head}</source>
        <translation>{method}、ヘッド {head}</translation>
    </message>
    <message>
        <source>{sides} may leave the target's own distribution, so this is expected.</source>
        <translation>{sides} はターゲットモデル自身の分布から外れることがあるため、これは想定どおりです。</translation>
    </message>
    <message>
        <source>{side} cannot be run: {problem}</source>
        <translation>{side} を実行できません: {problem}</translation>
    </message>
    <message>
        <source>{side} changes the distribution: its text need not be the target's.</source>
        <translation>{side} は分布を変えます。テキストがターゲットモデルのものと同じとは限りません。</translation>
    </message>
    <message>
        <source>{side} itself wrote different texts in its repeats.</source>
        <translation>{side} 自身が、繰り返しごとに異なるテキストを書きました。</translation>
    </message>
    <message>
        <source>{side} never drafted, so this compares plain decoding.</source>
        <translation>{side} は一度もドラフトしなかったため、通常デコードの比較になっています。</translation>
    </message>
    <message>
        <source>{side} paused drafting in {some} of {all} replies.</source>
        <translation>{side} は {all} 件中 {some} 件の応答でドラフトを休止しました。</translation>
    </message>
    <message>
        <source>{side}: head</source>
        <translation>{side}: ヘッド</translation>
    </message>
    <message>
        <source>{side}: method</source>
        <translation>{side}: 方式</translation>
    </message>
    <message>
        <source>{side}: the reply had ended</source>
        <translation>{side}: 応答は終わっていました</translation>
    </message>
    <message>
        <source>{side}: {token} (id {id})</source>
        <translation>{side}: {token} (ID {id})</translation>
    </message>
    <message>
        <source>{side}: {token} (id {id}, the target gives it {chance})</source>
        <translation>{side}: {token} (ID {id}、ターゲットモデルの確率 {chance})</translation>
    </message>
    <message>
        <source>{speed} tokens/s</source>
        <translation>{speed} トークン/秒</translation>
    </message>
    <message numerus="yes">
        <source>{what}: %n replies.</source>
        <translation>
            <numerusform>{what}: %n 件の応答。</numerusform>
        </translation>
    </message>
    <message>
        <source>{where}, a tie</source>
        <translation>{where}、同点</translation>
    </message>
</context>
<context>
    <name>Composer</name>
    <message>
        <source>A reply is being written in “{chat}”. Esc stops it.</source>
        <translation>「{chat}」で応答を書いています。Esc で停止します。</translation>
    </message>
    <message>
        <source>A reply is being written. Esc stops it.</source>
        <translation>応答を書いています。Esc で停止します。</translation>
    </message>
    <message>
        <source>Attach text files</source>
        <translation>テキストファイルを添付</translation>
    </message>
    <message>
        <source>Attach text files (UTF-8, up to {most} kB each); or drop them here</source>
        <translation>テキストファイルを添付 (UTF-8、各 {most} kB まで)。ここへドロップもできます</translation>
    </message>
    <message>
        <source>Attached files</source>
        <translation>添付ファイル</translation>
    </message>
    <message>
        <source>Enter sends, Shift+Enter starts a new line</source>
        <translation>Enter で送信、Shift+Enter で改行</translation>
    </message>
    <message>
        <source>Prompt</source>
        <translation>プロンプト</translation>
    </message>
    <message>
        <source>Send (Enter)</source>
        <translation>送信 (Enter)</translation>
    </message>
    <message>
        <source>Stop the reply (Esc)</source>
        <translation>応答を停止 (Esc)</translation>
    </message>
    <message>
        <source>Take {name} away</source>
        <translation>{name} を外す</translation>
    </message>
    <message>
        <source>Write a prompt…</source>
        <translation>プロンプトを書く…</translation>
    </message>
    <message numerus="yes">
        <source>{count} bytes</source>
        <translation>
            <numerusform>{count} バイト</numerusform>
        </translation>
    </message>
    <message>
        <source>{count} kB</source>
        <translation>{count} kB</translation>
    </message>
    <message>
        <source>“{name}” could not be read: {reason}. Check that you may open it.</source>
        <translation>「{name}」を読めませんでした: {reason}。開く権限があるか確かめてください。</translation>
    </message>
    <message>
        <source>“{name}” is empty. Choose a file with text in it.</source>
        <translation>「{name}」は空です。テキストのあるファイルを選んでください。</translation>
    </message>
    <message>
        <source>“{name}” is not a file. Choose single text files.</source>
        <translation>「{name}」はファイルではありません。テキストファイルを選んでください。</translation>
    </message>
    <message>
        <source>“{name}” is not a text file. Only text can be attached.</source>
        <translation>「{name}」はテキストファイルではありません。添付できるのはテキストだけです。</translation>
    </message>
    <message>
        <source>“{name}” is not text in UTF-8. Save it as UTF-8 text and attach that.</source>
        <translation>「{name}」は UTF-8 のテキストではありません。UTF-8 で保存したものを添付してください。</translation>
    </message>
    <message>
        <source>“{name}” is too large ({size} kB; at most {most} kB can be attached). Attach a part of it.</source>
        <translation>「{name}」は大きすぎます ({size} kB。添付できるのは {most} kB まで)。一部を添付してください。</translation>
    </message>
</context>
<context>
    <name>Engine</name>
    <message>
        <source>Loading was cancelled, and nothing is in memory. A prompt loads the model again.</source>
        <translation>読み込みを中止しました。メモリーには何もありません。プロンプトを送ると、モデルを読み込み直します。</translation>
    </message>
    <message>
        <source>No model is loaded, so nothing can be sent.</source>
        <translation>モデルが読み込まれていないため、送信できません。</translation>
    </message>
    <message>
        <source>The engine has stopped. Restart it to send.</source>
        <translation>エンジンが停止しました。送信するには再起動してください。</translation>
    </message>
    <message>
        <source>The engine is busy with a comparison.</source>
        <translation>エンジンは比較を実行中です。</translation>
    </message>
    <message>
        <source>The engine is starting. You can write already.</source>
        <translation>エンジンを起動しています。もう書き始められます。</translation>
    </message>
    <message>
        <source>The engine stopped unexpectedly.</source>
        <translation>エンジンが予期せず停止しました。</translation>
    </message>
    <message>
        <source>The model is loading. You can write already.</source>
        <translation>モデルを読み込んでいます。もう書き始められます。</translation>
    </message>
    <message>
        <source>The model is unloaded and its memory is free. A prompt loads it again.</source>
        <translation>モデルを解放し、メモリーが空きました。プロンプトを送ると読み込み直します。</translation>
    </message>
    <message numerus="yes">
        <source>The model was unloaded after %n minutes without use. A prompt loads it again.</source>
        <translation>
            <numerusform>%n 分間使われなかったため、モデルを解放しました。プロンプトを送ると読み込み直します。</numerusform>
        </translation>
    </message>
    <message>
        <source>The model was unloaded while this was written.</source>
        <translation>書いている間にモデルが解放されました。</translation>
    </message>
    <message>
        <source>What was received is kept. Load the model again to go on.</source>
        <translation>受け取った分は残っています。続けるにはモデルを読み込み直してください。</translation>
    </message>
    <message>
        <source>What was received is kept. Restart the engine to go on.</source>
        <translation>受け取った分は残っています。続けるにはエンジンを再起動してください。</translation>
    </message>
</context>
<context>
    <name>Examples</name>
    <message>
        <source>Ask a fact</source>
        <translation>事実を尋ねる</translation>
    </message>
    <message>
        <source>Make a list</source>
        <translation>一覧を作る</translation>
    </message>
    <message>
        <source>Name the planets of the solar system in order.</source>
        <translation>太陽系の惑星を順番に挙げてください。</translation>
    </message>
    <message>
        <source>Replies stream with their draft tree: what the head guessed, and what the target accepted.</source>
        <translation>応答はドラフトツリーとともに流れます。ヘッドが何を推測し、ターゲットモデルが何を受理したかが見えます。</translation>
    </message>
    <message>
        <source>Tell a short story about a fox who finds a lantern in the snow.</source>
        <translation>雪の中でランタンを見つけるキツネの短い物語を書いてください。</translation>
    </message>
    <message>
        <source>Tell a story</source>
        <translation>物語を書く</translation>
    </message>
    <message>
        <source>Translate</source>
        <translation>翻訳する</translation>
    </message>
    <message>
        <source>Translate to French: The weather is beautiful today.</source>
        <translation>フランス語に訳してください: 今日は天気がとても良いです。</translation>
    </message>
    <message>
        <source>What is the capital of Peru?</source>
        <translation>ペルーの首都はどこですか。</translation>
    </message>
    <message>
        <source>What shall we write?</source>
        <translation>何を書きましょうか</translation>
    </message>
</context>
<context>
    <name>Hub</name>
    <message>
        <source>(The card goes on; its page has the rest.)</source>
        <translation>(カードには続きがあります。残りはそのページにあります。)</translation>
    </message>
    <message>
        <source>A head is loaded together with its model: choose the model.</source>
        <translation>ヘッドはモデルと一緒に読み込まれます。モデルを選んでください。</translation>
    </message>
    <message>
        <source>About</source>
        <translation>概要</translation>
    </message>
    <message>
        <source>Access token</source>
        <translation>アクセストークン</translation>
    </message>
    <message>
        <source>Account</source>
        <translation>アカウント</translation>
    </message>
    <message>
        <source>Account not reached</source>
        <translation>アカウントに接続できません</translation>
    </message>
    <message>
        <source>Account: {name}.</source>
        <translation>アカウント: {name}。</translation>
    </message>
    <message>
        <source>Add a GGUF file…</source>
        <translation>GGUF ファイルを追加…</translation>
    </message>
    <message>
        <source>Add a folder…</source>
        <translation>フォルダーを追加…</translation>
    </message>
    <message>
        <source>An entered token goes into the system's keyring, or stays until Eyrie ends where there is none. It is sent to the hub alone.</source>
        <translation>入力したトークンはシステムのキーリングに保存されます。キーリングがない場合は Eyrie の終了まで保持されます。送信先はハブだけです。</translation>
    </message>
    <message>
        <source>Any family</source>
        <translation>すべての系列</translation>
    </message>
    <message>
        <source>Any licence</source>
        <translation>すべてのライセンス</translation>
    </message>
    <message>
        <source>Any size</source>
        <translation>すべてのサイズ</translation>
    </message>
    <message>
        <source>Based on</source>
        <translation>ベース</translation>
    </message>
    <message>
        <source>Cancel and delete</source>
        <translation>中止して削除</translation>
    </message>
    <message>
        <source>Cancel the download</source>
        <translation>ダウンロードを中止</translation>
    </message>
    <message>
        <source>Cancel the download of {name}?</source>
        <translation>{name} のダウンロードを中止しますか。</translation>
    </message>
    <message>
        <source>Cancel, keep what arrived</source>
        <translation>中止して、届いた分を残す</translation>
    </message>
    <message>
        <source>Cancel…</source>
        <translation>中止…</translation>
    </message>
    <message>
        <source>Choose a GGUF file</source>
        <translation>GGUF ファイルを選ぶ</translation>
    </message>
    <message>
        <source>Choose a model at the left.</source>
        <translation>左でモデルを選んでください。</translation>
    </message>
    <message>
        <source>Choose the folder of a model or a head</source>
        <translation>モデルまたはヘッドのフォルダーを選ぶ</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>閉じる</translation>
    </message>
    <message>
        <source>Context</source>
        <translation>コンテキスト</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>削除</translation>
    </message>
    <message>
        <source>Delete a model</source>
        <translation>モデルを削除</translation>
    </message>
    <message>
        <source>Delete the chosen model from the hub cache</source>
        <translation>選んだモデルをハブのキャッシュから削除</translation>
    </message>
    <message>
        <source>Delete {name} from this computer?</source>
        <translation>{name} をこのコンピューターから削除しますか。</translation>
    </message>
    <message>
        <source>Deleted with it: {names}.</source>
        <translation>一緒に削除されるもの: {names}。</translation>
    </message>
    <message>
        <source>Delete…</source>
        <translation>削除…</translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation>閉じる</translation>
    </message>
    <message>
        <source>Download</source>
        <translation>ダウンロード</translation>
    </message>
    <message>
        <source>Download of {name}</source>
        <translation>{name} のダウンロード</translation>
    </message>
    <message>
        <source>Download {size}</source>
        <translation>{size} をダウンロード</translation>
    </message>
    <message numerus="yes">
        <source>Downloading %n models</source>
        <translation>
            <numerusform>%n 個のモデルをダウンロード中</numerusform>
        </translation>
    </message>
    <message>
        <source>Downloads</source>
        <translation>ダウンロード</translation>
    </message>
    <message>
        <source>Draft with it</source>
        <translation>これでドラフト</translation>
    </message>
    <message>
        <source>EAGLE head</source>
        <translation>EAGLE ヘッド</translation>
    </message>
    <message>
        <source>EAGLE head, looking for more…</source>
        <translation>EAGLE ヘッド、さらに探しています…</translation>
    </message>
    <message>
        <source>EAGLE heads</source>
        <translation>EAGLE ヘッド</translation>
    </message>
    <message>
        <source>Enter a token…</source>
        <translation>トークンを入力…</translation>
    </message>
    <message>
        <source>Expected speed-up</source>
        <translation>見込まれる高速化</translation>
    </message>
    <message>
        <source>Family</source>
        <translation>系列</translation>
    </message>
    <message>
        <source>Files</source>
        <translation>ファイル</translation>
    </message>
    <message>
        <source>Files of the same model in different precisions; one is downloaded</source>
        <translation>同じモデルの精度の異なるファイル。一つをダウンロードします</translation>
    </message>
    <message>
        <source>Files that are downloaded</source>
        <translation>ダウンロードされるファイル</translation>
    </message>
    <message>
        <source>Fits this machine</source>
        <translation>このマシンで動く</translation>
    </message>
    <message>
        <source>Forget it</source>
        <translation>忘れる</translation>
    </message>
    <message>
        <source>Go on downloading</source>
        <translation>ダウンロードを続ける</translation>
    </message>
    <message>
        <source>Graphics card</source>
        <translation>グラフィックカード</translation>
    </message>
    <message>
        <source>Has an EAGLE head</source>
        <translation>EAGLE ヘッドあり</translation>
    </message>
    <message>
        <source>Head</source>
        <translation>ヘッド</translation>
    </message>
    <message>
        <source>Heads for this model</source>
        <translation>このモデルのヘッド</translation>
    </message>
    <message>
        <source>Hub account</source>
        <translation>ハブのアカウント</translation>
    </message>
    <message>
        <source>It is being downloaded.</source>
        <translation>ダウンロード中です。</translation>
    </message>
    <message>
        <source>It is loaded now: it goes on until it is unloaded, and then it is gone.</source>
        <translation>現在読み込まれています。解放されるまでは使えますが、その後はなくなります。</translation>
    </message>
    <message>
        <source>Its download is paused.</source>
        <translation>ダウンロードを一時停止しています。</translation>
    </message>
    <message>
        <source>Its download stopped; the reason is below.</source>
        <translation>ダウンロードが止まりました。理由は下にあります。</translation>
    </message>
    <message>
        <source>Keep it</source>
        <translation>残す</translation>
    </message>
    <message>
        <source>Languages</source>
        <translation>言語</translation>
    </message>
    <message>
        <source>Last updated</source>
        <translation>最終更新</translation>
    </message>
    <message>
        <source>Licence</source>
        <translation>ライセンス</translation>
    </message>
    <message>
        <source>Lies in</source>
        <translation>場所</translation>
    </message>
    <message>
        <source>Load</source>
        <translation>読み込む</translation>
    </message>
    <message>
        <source>Looking at it…</source>
        <translation>調べています…</translation>
    </message>
    <message>
        <source>Looking at this machine…</source>
        <translation>このマシンを調べています…</translation>
    </message>
    <message numerus="yes">
        <source>Looking for heads of %n more models…</source>
        <translation>
            <numerusform>さらに %n 個のモデルのヘッドを探しています…</numerusform>
        </translation>
    </message>
    <message>
        <source>Looking…</source>
        <translation>探しています…</translation>
    </message>
    <message>
        <source>Made for</source>
        <translation>対象</translation>
    </message>
    <message>
        <source>Make a token…</source>
        <translation>トークンを作成…</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>メモリー</translation>
    </message>
    <message>
        <source>Model card</source>
        <translation>モデルカード</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>モデル</translation>
    </message>
    <message>
        <source>Models on this computer</source>
        <translation>このコンピューターのモデル</translation>
    </message>
    <message>
        <source>More pairs</source>
        <translation>ほかの組</translation>
    </message>
    <message>
        <source>Most downloaded</source>
        <translation>ダウンロードの多い順</translation>
    </message>
    <message>
        <source>Most liked</source>
        <translation>いいねの多い順</translation>
    </message>
    <message>
        <source>Name, or the address of a model's page</source>
        <translation>名前、またはモデルのページのアドレス</translation>
    </message>
    <message>
        <source>No NVIDIA GPU was found, so models run on the processor: {free} of {total} memory are free.</source>
        <translation>NVIDIA GPU が見つからないため、モデルはプロセッサーで動きます。メモリー {total} のうち {free} が空いています。</translation>
    </message>
    <message>
        <source>No head</source>
        <translation>ヘッドなし</translation>
    </message>
    <message>
        <source>No model is here yet. Download one, or add a folder or a GGUF file that you have already.</source>
        <translation>まだモデルがありません。ダウンロードするか、手元のフォルダーか GGUF ファイルを追加してください。</translation>
    </message>
    <message>
        <source>No token is set. Free models need none; gated ones need the token of an account that may read them.</source>
        <translation>トークンは設定されていません。自由なモデルには不要です。アクセス制限のあるモデルには、それを読めるアカウントのトークンが必要です。</translation>
    </message>
    <message>
        <source>None of the first {count} hits passes the filters. Show more, or filter less.</source>
        <translation>最初の {count} 件にフィルターに合うものはありません。さらに表示するか、フィルターを減らしてください。</translation>
    </message>
    <message>
        <source>Not known yet whether the head fits.</source>
        <translation>ヘッドが合うかどうかは、まだわかりません。</translation>
    </message>
    <message>
        <source>Not logged in</source>
        <translation>未ログイン</translation>
    </message>
    <message>
        <source>Notes</source>
        <translation>備考</translation>
    </message>
    <message>
        <source>Nothing was found. Try fewer words, or fewer filters.</source>
        <translation>見つかりませんでした。語かフィルターを減らしてみてください。</translation>
    </message>
    <message>
        <source>Offline</source>
        <translation>オフライン</translation>
    </message>
    <message>
        <source>On this computer</source>
        <translation>このコンピューター</translation>
    </message>
    <message>
        <source>Only models for which the catalogue or the hub has a head that fits</source>
        <translation>カタログまたはハブに合うヘッドがあるモデルだけ</translation>
    </message>
    <message>
        <source>Open its page</source>
        <translation>ページを開く</translation>
    </message>
    <message>
        <source>Open the page</source>
        <translation>ページを開く</translation>
    </message>
    <message>
        <source>Pause</source>
        <translation>一時停止</translation>
    </message>
    <message>
        <source>Quantisation</source>
        <translation>量子化</translation>
    </message>
    <message>
        <source>Recommended</source>
        <translation>おすすめ</translation>
    </message>
    <message>
        <source>Recommended for this machine</source>
        <translation>このマシンへのおすすめ</translation>
    </message>
    <message>
        <source>Recommended pairs</source>
        <translation>おすすめの組</translation>
    </message>
    <message>
        <source>Resume</source>
        <translation>再開</translation>
    </message>
    <message>
        <source>Search results</source>
        <translation>検索結果</translation>
    </message>
    <message>
        <source>Search the hub</source>
        <translation>ハブを検索</translation>
    </message>
    <message>
        <source>Searching…</source>
        <translation>検索しています…</translation>
    </message>
    <message>
        <source>Show more</source>
        <translation>さらに表示</translation>
    </message>
    <message>
        <source>Show more search results</source>
        <translation>検索結果をさらに表示</translation>
    </message>
    <message>
        <source>Show the downloads</source>
        <translation>ダウンロードを表示</translation>
    </message>
    <message>
        <source>Size</source>
        <translation>サイズ</translation>
    </message>
    <message>
        <source>Sort by</source>
        <translation>並べ替え</translation>
    </message>
    <message>
        <source>Start it again</source>
        <translation>再起動</translation>
    </message>
    <message>
        <source>Take off the list</source>
        <translation>一覧から外す</translation>
    </message>
    <message>
        <source>The card is being read…</source>
        <translation>カードを読んでいます…</translation>
    </message>
    <message>
        <source>The download of {name} is paused.</source>
        <translation>{name} のダウンロードを一時停止しました。</translation>
    </message>
    <message>
        <source>The download of {name} stopped. {reason}</source>
        <translation>{name} のダウンロードが止まりました。{reason}</translation>
    </message>
    <message>
        <source>The files stay where they are</source>
        <translation>ファイルは元の場所に残ります</translation>
    </message>
    <message>
        <source>The head does not fit this model.</source>
        <translation>このヘッドはこのモデルに合いません。</translation>
    </message>
    <message>
        <source>The head fits this model.</source>
        <translation>このヘッドはこのモデルに合います。</translation>
    </message>
    <message>
        <source>The head fits, with a caveat.</source>
        <translation>このヘッドは注意つきで合います。</translation>
    </message>
    <message>
        <source>The hub account that gated models are read with</source>
        <translation>アクセス制限のあるモデルを読むハブのアカウント</translation>
    </message>
    <message>
        <source>The token of the variable HF_TOKEN is used.</source>
        <translation>変数 HF_TOKEN のトークンを使っています。</translation>
    </message>
    <message>
        <source>The token that you entered is used until Eyrie ends. No keyring could keep it.</source>
        <translation>入力したトークンを Eyrie の終了まで使います。保存できるキーリングがありませんでした。</translation>
    </message>
    <message>
        <source>The token that you entered is used. The system's keyring keeps it.</source>
        <translation>入力したトークンを使っています。システムのキーリングに保存されています。</translation>
    </message>
    <message>
        <source>The token that “hf auth login” stored is used.</source>
        <translation>「hf auth login」が保存したトークンを使っています。</translation>
    </message>
    <message>
        <source>There is no model card.</source>
        <translation>モデルカードがありません。</translation>
    </message>
    <message>
        <source>This frees up to {size}. Other programs that use the hub cache lose it, too.</source>
        <translation>最大 {size} が空きます。ハブのキャッシュを使うほかのプログラムからも消えます。</translation>
    </message>
    <message>
        <source>This head does not fit. Choose another one, or none.</source>
        <translation>このヘッドは合いません。別のものを選ぶか、なしにしてください。</translation>
    </message>
    <message>
        <source>Token refused</source>
        <translation>トークンが拒否されました</translation>
    </message>
    <message>
        <source>Token set</source>
        <translation>トークン設定済み</translation>
    </message>
    <message>
        <source>Too large for this machine</source>
        <translation>このマシンには大きすぎる</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>再試行</translation>
    </message>
    <message>
        <source>Type to search. With an empty field the most downloaded models are listed.</source>
        <translation>入力すると検索します。空のままなら、ダウンロードの多いモデルを表示します。</translation>
    </message>
    <message>
        <source>Up to {size} B</source>
        <translation>{size} B まで</translation>
    </message>
    <message>
        <source>Updated</source>
        <translation>更新日</translation>
    </message>
    <message>
        <source>Use the chosen model as draft model for the loaded one; both need the same vocabulary</source>
        <translation>選んだモデルを、読み込み済みモデルのドラフトモデルとして使います。語彙が同じである必要があります</translation>
    </message>
    <message>
        <source>Use this token</source>
        <translation>このトークンを使う</translation>
    </message>
    <message>
        <source>about {size} on disk</source>
        <translation>ディスク上で約 {size}</translation>
    </message>
    <message>
        <source>asking the hub which files there are…</source>
        <translation>ハブにファイルを問い合わせています…</translation>
    </message>
    <message>
        <source>caveat</source>
        <translation>注意</translation>
    </message>
    <message>
        <source>checking the checksum</source>
        <translation>チェックサムを確認中</translation>
    </message>
    <message>
        <source>does not fit</source>
        <translation>合わない</translation>
    </message>
    <message numerus="yes">
        <source>drafts {count} tokens</source>
        <translation>
            <numerusform>{count} トークンをドラフト</numerusform>
        </translation>
    </message>
    <message>
        <source>fits</source>
        <translation>合う</translation>
    </message>
    <message>
        <source>hub cache</source>
        <translation>ハブのキャッシュ</translation>
    </message>
    <message>
        <source>in the catalogue</source>
        <translation>カタログ内</translation>
    </message>
    <message>
        <source>its card does not tell</source>
        <translation>カードに記載なし</translation>
    </message>
    <message>
        <source>licence on its page</source>
        <translation>ライセンスはページに記載</translation>
    </message>
    <message>
        <source>made for {model}</source>
        <translation>{model} 用</translation>
    </message>
    <message>
        <source>more than 24 GB</source>
        <translation>24 GB を超える</translation>
    </message>
    <message>
        <source>no room on the disk</source>
        <translation>ディスクの空き不足</translation>
    </message>
    <message>
        <source>no speed-up published</source>
        <translation>高速化は未公表</translation>
    </message>
    <message>
        <source>none was published</source>
        <translation>未公表</translation>
    </message>
    <message>
        <source>not checked</source>
        <translation>未確認</translation>
    </message>
    <message>
        <source>nothing arrives at the moment</source>
        <translation>今は届いていません</translation>
    </message>
    <message>
        <source>on this computer</source>
        <translation>このコンピューター</translation>
    </message>
    <message>
        <source>paused</source>
        <translation>一時停止中</translation>
    </message>
    <message>
        <source>plain decoding, one token at a time</source>
        <translation>通常デコード、1 トークンずつ</translation>
    </message>
    <message>
        <source>ready</source>
        <translation>完了</translation>
    </message>
    <message>
        <source>size unknown</source>
        <translation>サイズ不明</translation>
    </message>
    <message>
        <source>stopped</source>
        <translation>停止</translation>
    </message>
    <message>
        <source>tight</source>
        <translation>ぎりぎり</translation>
    </message>
    <message>
        <source>too large</source>
        <translation>大きすぎる</translation>
    </message>
    <message>
        <source>up to {factor}× published</source>
        <translation>公表値 最大 {factor} 倍</translation>
    </message>
    <message>
        <source>waiting for its turn</source>
        <translation>順番待ち</translation>
    </message>
    <message>
        <source>{action}: {name}</source>
        <translation>{action}: {name}</translation>
    </message>
    <message numerus="yes">
        <source>{count} bytes</source>
        <translation>
            <numerusform>{count} バイト</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} downloads</source>
        <translation>
            <numerusform>{count} ダウンロード</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} likes</source>
        <translation>
            <numerusform>{count} いいね</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} tokens</source>
        <translation>
            <numerusform>{count} トークン</numerusform>
        </translation>
    </message>
    <message>
        <source>{device}: {free} of {total} memory are free.</source>
        <translation>{device}: メモリー {total} のうち {free} が空いています。</translation>
    </message>
    <message>
        <source>{done} of {total}</source>
        <translation>{done}/{total}</translation>
    </message>
    <message>
        <source>{downloads}, {share}</source>
        <translation>{downloads}、{share}</translation>
    </message>
    <message>
        <source>{factor}× ({source})</source>
        <translation>{factor} 倍 ({source})</translation>
    </message>
    <message>
        <source>{file}:  {done} of {size}</source>
        <translation>{file}:  {done}/{size}</translation>
    </message>
    <message>
        <source>{file}:  {size}, here</source>
        <translation>{file}:  {size}、取得済み</translation>
    </message>
    <message>
        <source>{hours} h {minutes} min left</source>
        <translation>残り {hours} 時間 {minutes} 分</translation>
    </message>
    <message>
        <source>{licence}, gated</source>
        <translation>{licence}、アクセス制限あり</translation>
    </message>
    <message>
        <source>{minutes} min left</source>
        <translation>残り {minutes} 分</translation>
    </message>
    <message>
        <source>{model}  (has a head)</source>
        <translation>{model}  (ヘッドあり)</translation>
    </message>
    <message>
        <source>{name} is downloaded.</source>
        <translation>{name} をダウンロードしました。</translation>
    </message>
    <message>
        <source>{name}:  {value}</source>
        <translation>{name}:  {value}</translation>
    </message>
    <message>
        <source>{number} B</source>
        <translation>{number} B</translation>
    </message>
    <message>
        <source>{number} M</source>
        <translation>{number} M</translation>
    </message>
    <message>
        <source>{parts}. Estimated from the size alone.</source>
        <translation>{parts}。サイズだけから見積もりました。</translation>
    </message>
    <message>
        <source>{parts}. Reckoned from the tensors.</source>
        <translation>{parts}。テンソルから計算しました。</translation>
    </message>
    <message>
        <source>{seconds} s left</source>
        <translation>残り {seconds} 秒</translation>
    </message>
    <message>
        <source>{size}   in all</source>
        <translation>{size}   合計</translation>
    </message>
    <message>
        <source>{size} GB</source>
        <translation>{size} GB</translation>
    </message>
    <message>
        <source>{size} GB, tight</source>
        <translation>{size} GB、ぎりぎり</translation>
    </message>
    <message numerus="yes">
        <source>{size} for {count} tokens</source>
        <translation>
            <numerusform>{count} トークン分 {size}</numerusform>
        </translation>
    </message>
    <message>
        <source>{size} free on the disk</source>
        <translation>ディスクの空き {size}</translation>
    </message>
    <message>
        <source>{size} have arrived. Kept, they need not be fetched again later.</source>
        <translation>{size} が届いています。残しておけば、後で取り直さずに済みます。</translation>
    </message>
    <message>
        <source>{size} head</source>
        <translation>ヘッド {size}</translation>
    </message>
    <message>
        <source>{size} on disk</source>
        <translation>ディスク上で {size}</translation>
    </message>
    <message>
        <source>{size} weights in {format}</source>
        <translation>重み {size} ({format})</translation>
    </message>
    <message>
        <source>{size} workspace</source>
        <translation>作業領域 {size}</translation>
    </message>
    <message>
        <source>{size}/s</source>
        <translation>{size}/秒</translation>
    </message>
</context>
<context>
    <name>Instructions</name>
    <message>
        <source>&amp;System prompt</source>
        <translation>システムプロンプト(&amp;S)</translation>
    </message>
    <message>
        <source>Choose a preset…</source>
        <translation>プリセットを選ぶ…</translation>
    </message>
    <message>
        <source>Clear</source>
        <translation>クリア</translation>
    </message>
    <message>
        <source>Delete preset</source>
        <translation>プリセットを削除</translation>
    </message>
    <message>
        <source>Name of the preset:</source>
        <translation>プリセットの名前:</translation>
    </message>
    <message>
        <source>Preset</source>
        <translation>プリセット</translation>
    </message>
    <message>
        <source>Save as preset</source>
        <translation>プリセットとして保存</translation>
    </message>
    <message>
        <source>Save as preset…</source>
        <translation>プリセットとして保存…</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>システムプロンプト</translation>
    </message>
    <message>
        <source>System prompt and settings of this chat</source>
        <translation>このチャットのシステムプロンプトと設定</translation>
    </message>
    <message>
        <source>What the model is told before the conversation, for instance its role.</source>
        <translation>会話の前にモデルに伝えること。たとえば役割。</translation>
    </message>
</context>
<context>
    <name>Licence</name>
    <message>
        <source>I understand</source>
        <translation>了解しました</translation>
    </message>
    <message>
        <source>Licence</source>
        <translation>ライセンス</translation>
    </message>
    <message>
        <source>Licence text</source>
        <translation>ライセンスの本文</translation>
    </message>
    <message>
        <source>Model licence</source>
        <translation>モデルのライセンス</translation>
    </message>
    <message>
        <source>{model} is used under these terms.</source>
        <translation>{model} は次の条件のもとで使われます。</translation>
    </message>
</context>
<context>
    <name>Link</name>
    <message>
        <source>Copy the address</source>
        <translation>アドレスをコピー</translation>
    </message>
    <message>
        <source>Eyrie opens web pages and mail addresses only. You can copy the address.</source>
        <translation>Eyrie が開くのはウェブページとメールアドレスだけです。アドレスはコピーできます。</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>開く</translation>
    </message>
    <message>
        <source>Open this address?</source>
        <translation>このアドレスを開きますか</translation>
    </message>
    <message>
        <source>The model wrote this address. Open it only if you trust where it goes.</source>
        <translation>このアドレスはモデルが書いたものです。行き先を信頼できる場合だけ開いてください。</translation>
    </message>
    <message>
        <source>This address is not opened</source>
        <translation>このアドレスは開きません</translation>
    </message>
    <message>
        <source>{beginning}… ({count} characters)</source>
        <translation>{beginning}… ({count} 文字)</translation>
    </message>
</context>
<context>
    <name>Loading</name>
    <message>
        <source>4 bits (NF4), on a GPU</source>
        <translation>4 ビット (NF4)、GPU 上</translation>
    </message>
    <message>
        <source>8 bits, on a processor</source>
        <translation>8 ビット、プロセッサー上</translation>
    </message>
    <message>
        <source>A smaller model with the same vocabulary, for the method of that name.</source>
        <translation>同じ語彙を持つ小さなモデル。同名の方式で使います。</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>自動</translation>
    </message>
    <message>
        <source>Choose the folder of a draft model</source>
        <translation>ドラフトモデルのフォルダーを選ぶ</translation>
    </message>
    <message>
        <source>Choose the folder of a smaller model</source>
        <translation>小さなモデルのフォルダーを選ぶ</translation>
    </message>
    <message>
        <source>Choose…</source>
        <translation>選ぶ…</translation>
    </message>
    <message>
        <source>Context (tokens)</source>
        <translation>コンテキスト (トークン)</translation>
    </message>
    <message>
        <source>Draft model</source>
        <translation>ドラフトモデル</translation>
    </message>
    <message>
        <source>How long a chat can get. A longer one needs more memory.</source>
        <translation>チャットの長さの上限。長いほどメモリーを使います。</translation>
    </message>
    <message>
        <source>Loading</source>
        <translation>読み込み</translation>
    </message>
    <message>
        <source>NF4 becomes 8 % smaller and a little slower.</source>
        <translation>NF4 が 8 % 小さくなり、少し遅くなります。</translation>
    </message>
    <message>
        <source>No draft model</source>
        <translation>ドラフトモデルなし</translation>
    </message>
    <message>
        <source>None</source>
        <translation>なし</translation>
    </message>
    <message>
        <source>Of files that are not quantised yet.</source>
        <translation>まだ量子化されていないファイルに使います。</translation>
    </message>
    <message>
        <source>Quantise the scales, too</source>
        <translation>スケールも量子化する</translation>
    </message>
    <message>
        <source>The model is loaded again when something changes here.</source>
        <translation>ここを変えると、モデルを読み込み直します。</translation>
    </message>
    <message>
        <source>Weights</source>
        <translation>重み</translation>
    </message>
</context>
<context>
    <name>Menu</name>
    <message>
        <source>&amp;About Eyrie</source>
        <translation>Eyrie について(&amp;A)</translation>
    </message>
    <message>
        <source>&amp;Chat</source>
        <translation>チャット(&amp;C)</translation>
    </message>
    <message>
        <source>&amp;Chats</source>
        <translation>チャット(&amp;C)</translation>
    </message>
    <message>
        <source>&amp;Copy diagnostics</source>
        <translation>診断情報をコピー(&amp;C)</translation>
    </message>
    <message>
        <source>&amp;Copy the last reply</source>
        <translation>最後の応答をコピー(&amp;C)</translation>
    </message>
    <message>
        <source>&amp;Draft tree</source>
        <translation>ドラフトツリー(&amp;D)</translation>
    </message>
    <message>
        <source>&amp;EAGLE</source>
        <translation>EAGLE(&amp;E)</translation>
    </message>
    <message>
        <source>&amp;Edit the last prompt</source>
        <translation>最後のプロンプトを編集(&amp;E)</translation>
    </message>
    <message>
        <source>&amp;File</source>
        <translation>ファイル(&amp;F)</translation>
    </message>
    <message>
        <source>&amp;Find a command…</source>
        <translation>コマンドを検索(&amp;F)…</translation>
    </message>
    <message>
        <source>&amp;Free the GPU</source>
        <translation>GPU を解放(&amp;F)</translation>
    </message>
    <message>
        <source>&amp;Go to the prompt</source>
        <translation>プロンプトへ移動(&amp;G)</translation>
    </message>
    <message>
        <source>&amp;Help</source>
        <translation>ヘルプ(&amp;H)</translation>
    </message>
    <message>
        <source>&amp;Import chats…</source>
        <translation>チャットを読み込む(&amp;I)…</translation>
    </message>
    <message>
        <source>&amp;Keyboard shortcuts</source>
        <translation>キーボードショートカット(&amp;K)</translation>
    </message>
    <message>
        <source>&amp;Larger text</source>
        <translation>文字を大きく(&amp;L)</translation>
    </message>
    <message>
        <source>&amp;Load the model</source>
        <translation>モデルを読み込む(&amp;L)</translation>
    </message>
    <message>
        <source>&amp;Mark accepted draft tokens</source>
        <translation>受理されたドラフトトークンに印を付ける(&amp;M)</translation>
    </message>
    <message>
        <source>&amp;Model</source>
        <translation>モデル(&amp;M)</translation>
    </message>
    <message>
        <source>&amp;Models…</source>
        <translation>モデル(&amp;M)…</translation>
    </message>
    <message>
        <source>&amp;New chat</source>
        <translation>新しいチャット(&amp;N)</translation>
    </message>
    <message>
        <source>&amp;Normal text size</source>
        <translation>標準の文字サイズ(&amp;N)</translation>
    </message>
    <message>
        <source>&amp;Previous chat</source>
        <translation>前のチャット(&amp;P)</translation>
    </message>
    <message>
        <source>&amp;Quit</source>
        <translation>終了(&amp;Q)</translation>
    </message>
    <message>
        <source>&amp;Restart the engine</source>
        <translation>エンジンを再起動(&amp;R)</translation>
    </message>
    <message>
        <source>&amp;Settings for this model…</source>
        <translation>このモデルの設定(&amp;S)…</translation>
    </message>
    <message>
        <source>&amp;Settings…</source>
        <translation>設定(&amp;S)…</translation>
    </message>
    <message>
        <source>&amp;Smaller text</source>
        <translation>文字を小さく(&amp;S)</translation>
    </message>
    <message>
        <source>&amp;Stop the reply</source>
        <translation>応答を停止(&amp;S)</translation>
    </message>
    <message>
        <source>&amp;Tour of the window</source>
        <translation>ウィンドウの案内(&amp;T)</translation>
    </message>
    <message>
        <source>&amp;Undo deleting a chat</source>
        <translation>チャットの削除を取り消す(&amp;U)</translation>
    </message>
    <message>
        <source>&amp;View</source>
        <translation>表示(&amp;V)</translation>
    </message>
    <message>
        <source>&amp;Write the last reply again</source>
        <translation>最後の応答を書き直す(&amp;W)</translation>
    </message>
    <message>
        <source>C&amp;ompare two settings…</source>
        <translation>二つの設定を比較(&amp;O)…</translation>
    </message>
    <message>
        <source>Cancel loa&amp;ding</source>
        <translation>読み込みを中止(&amp;D)</translation>
    </message>
    <message>
        <source>Comp&amp;arisons of this chat…</source>
        <translation>このチャットの比較(&amp;A)…</translation>
    </message>
    <message>
        <source>Con&amp;tinue the last reply</source>
        <translation>最後の応答を続ける(&amp;T)</translation>
    </message>
    <message>
        <source>Copy the chat as &amp;Markdown</source>
        <translation>チャットを Markdown としてコピー(&amp;M)</translation>
    </message>
    <message>
        <source>Export &amp;all chats…</source>
        <translation>すべてのチャットを書き出す(&amp;A)…</translation>
    </message>
    <message>
        <source>Find, download and load models and heads</source>
        <translation>モデルとヘッドを探し、ダウンロードし、読み込む</translation>
    </message>
    <message>
        <source>Model l&amp;icence…</source>
        <translation>モデルのライセンス(&amp;I)…</translation>
    </message>
    <message>
        <source>Ne&amp;xt chat</source>
        <translation>次のチャット(&amp;X)</translation>
    </message>
    <message>
        <source>Run two settings side by side: EAGLE on and off, methods, heads</source>
        <translation>二つの設定を並べて実行: EAGLE のオンとオフ、方式、ヘッド</translation>
    </message>
    <message>
        <source>Searc&amp;h chats</source>
        <translation>チャットを検索(&amp;H)</translation>
    </message>
    <message>
        <source>Show or hide the chats</source>
        <translation>チャットの表示を切り替え</translation>
    </message>
    <message>
        <source>Show or hide the draft tree</source>
        <translation>ドラフトツリーの表示を切り替え</translation>
    </message>
    <message>
        <source>Unload the model and give its memory back</source>
        <translation>モデルを解放してメモリーを空ける</translation>
    </message>
    <message>
        <source>Version &amp;before</source>
        <translation>前の版(&amp;B)</translation>
    </message>
    <message>
        <source>Version a&amp;fter</source>
        <translation>次の版(&amp;F)</translation>
    </message>
</context>
<context>
    <name>Methods</name>
    <message>
        <source>Automatic ({method})</source>
        <translation>自動 ({method})</translation>
    </message>
    <message>
        <source>Choose the drafting method</source>
        <translation>ドラフト方式を選ぶ</translation>
    </message>
    <message>
        <source>Draftin&amp;g method</source>
        <translation>ドラフト方式(&amp;G)</translation>
    </message>
    <message>
        <source>{method} – not available</source>
        <translation>{method} – 使えません</translation>
    </message>
</context>
<context>
    <name>Model settings</name>
    <message>
        <source>Answer at once</source>
        <translation>すぐに答える</translation>
    </message>
    <message>
        <source>As the model does</source>
        <translation>モデルに任せる</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>自動</translation>
    </message>
    <message>
        <source>Changes the distribution: the reply no longer follows the model's own.</source>
        <translation>分布を変えます。応答はモデル自身の分布に従わなくなります。</translation>
    </message>
    <message>
        <source>Default ({value})</source>
        <translation>既定 ({value})</translation>
    </message>
    <message>
        <source>Drafting</source>
        <translation>ドラフト</translation>
    </message>
    <message>
        <source>Drafting method</source>
        <translation>ドラフト方式</translation>
    </message>
    <message>
        <source>For chats that have none of their own</source>
        <translation>独自のものを持たないチャット用</translation>
    </message>
    <message>
        <source>On</source>
        <translation>オン</translation>
    </message>
    <message>
        <source>Replies</source>
        <translation>応答</translation>
    </message>
    <message>
        <source>Settings for this model</source>
        <translation>このモデルの設定</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>システムプロンプト</translation>
    </message>
    <message>
        <source>System prompt for chats that have none of their own</source>
        <translation>独自のものを持たないチャットのシステムプロンプト</translation>
    </message>
    <message>
        <source>The method that suits this model, with what the engine measured.</source>
        <translation>このモデルに合う方式を、エンジンの測定値とともに使います。</translation>
    </message>
    <message>
        <source>Think first</source>
        <translation>先に考える</translation>
    </message>
    <message>
        <source>Thinking</source>
        <translation>思考</translation>
    </message>
    <message>
        <source>What is set here wins over the settings; what a chat has its own way wins over this.</source>
        <translation>ここでの設定は全体の設定に優先し、チャットごとの設定はこれに優先します。</translation>
    </message>
    <message>
        <source>lossless</source>
        <translation>無損失</translation>
    </message>
    <message>
        <source>off</source>
        <translation>オフ</translation>
    </message>
    <message>
        <source>on</source>
        <translation>オン</translation>
    </message>
    <message>
        <source>typical</source>
        <translation>典型</translation>
    </message>
    <message>
        <source>{setting}: default</source>
        <translation>{setting}: 既定</translation>
    </message>
</context>
<context>
    <name>Notices</name>
    <message>
        <source>Cancel</source>
        <translation>キャンセル</translation>
    </message>
    <message>
        <source>Cancel loading</source>
        <translation>読み込みを中止</translation>
    </message>
    <message>
        <source>Cancel the export or import</source>
        <translation>エクスポートまたはインポートを中止</translation>
    </message>
    <message>
        <source>Copy details</source>
        <translation>詳細をコピー</translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation>閉じる</translation>
    </message>
    <message>
        <source>EAGLE is not available. {why}</source>
        <translation>EAGLE は使えません。{why}</translation>
    </message>
    <message>
        <source>Eyrie did not end properly last time.</source>
        <translation>前回、Eyrie は正常に終了しませんでした。</translation>
    </message>
    <message>
        <source>Load the model</source>
        <translation>モデルを読み込む</translation>
    </message>
    <message>
        <source>Loading progress</source>
        <translation>読み込みの進み具合</translation>
    </message>
    <message>
        <source>No EAGLE head is loaded for this model, so replies are decoded one token at a time.</source>
        <translation>このモデルには EAGLE ヘッドが読み込まれていないため、応答は 1 トークンずつデコードされます。</translation>
    </message>
    <message>
        <source>No details are known.</source>
        <translation>詳細はわかりません。</translation>
    </message>
    <message>
        <source>Progress of the export or import</source>
        <translation>エクスポートまたはインポートの進行状況</translation>
    </message>
    <message>
        <source>Restart engine</source>
        <translation>エンジンを再起動</translation>
    </message>
    <message>
        <source>Show the downloads</source>
        <translation>ダウンロードを表示</translation>
    </message>
    <message>
        <source>Something unexpected went wrong: {kind}.</source>
        <translation>予期しない問題が起きました: {kind}。</translation>
    </message>
    <message>
        <source>Starting the engine…</source>
        <translation>エンジンを起動しています…</translation>
    </message>
    <message>
        <source>This is a tiny demo model. It shows how speculative decoding works, but it makes things up: do not rely on its answers. Better models come from the model hub.</source>
        <translation>これはごく小さなデモモデルです。投機的デコードの仕組みを見せますが、作り話をします。答えを当てにしないでください。より良いモデルはモデルハブにあります。</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>再試行</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>元に戻す</translation>
    </message>
    <message>
        <source>What was received is kept.</source>
        <translation>受け取った分は残っています。</translation>
    </message>
    <message>
        <source>You can go on; the log has the details.</source>
        <translation>そのまま続けられます。詳細はログにあります。</translation>
    </message>
</context>
<context>
    <name>Panel</name>
    <message numerus="yes">
        <source>%n guesses</source>
        <translation>
            <numerusform>推測 %n 個</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n levels</source>
        <translation>
            <numerusform>%n 段</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n passes ago</source>
        <translation>
            <numerusform>%n パス前</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n places</source>
        <translation>
            <numerusform>%n か所</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n rows</source>
        <translation>
            <numerusform>%n 行</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n steps</source>
        <translation>
            <numerusform>%n ステップ</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n tokens</source>
        <translation>
            <numerusform>%n トークン</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n tokens earlier</source>
        <translation>
            <numerusform>%n トークン前</numerusform>
        </translation>
    </message>
    <message>
        <source>, more than any other token</source>
        <translation>、ほかのどのトークンより上</translation>
    </message>
    <message>
        <source>, number {rank} of all tokens</source>
        <translation>、全トークン中 {rank} 位</translation>
    </message>
    <message>
        <source>, number {rank} of all {count}</source>
        <translation>、全 {count} 個中 {rank} 位</translation>
    </message>
    <message>
        <source>, number {rank} of its {count} guesses here</source>
        <translation>、ここの推測 {count} 個中 {rank} 位</translation>
    </message>
    <message>
        <source>A guess that follows a rejected one, so it was never looked at.</source>
        <translation>棄却された推測の後に続くため、見られなかった推測。</translation>
    </message>
    <message>
        <source>A guess that the target confirmed: a token for free.</source>
        <translation>ターゲットモデルが認めた推測。ただで得たトークンです。</translation>
    </message>
    <message>
        <source>A guess where the target chose another token.</source>
        <translation>ターゲットモデルが別のトークンを選んだ推測。</translation>
    </message>
    <message>
        <source>A language model writes one token (a word or a piece of one) at a time, and each token costs a pass through the whole model, here called the target. It is like a careful author who reads the whole text again before every word.</source>
        <translation>言語モデルは一度に 1 トークン (単語またはその一部) を書き、トークンごとにモデル全体 (ここではターゲットモデルと呼びます) の計算が 1 パス必要です。一語書くたびに全文を読み直す、慎重な書き手のようなものです。</translation>
    </message>
    <message>
        <source>A quick helper guesses how the text goes on, one token after the other. That is the row, read from left to right. The target then checks all guesses in a single pass. It keeps them up to the first one it disagrees with, and puts a token of its own in that place, the bonus token. What follows a wrong guess is thrown away.</source>
        <translation>すばやい助手が、テキストの続きを 1 トークンずつ推測します。それが左から右へ読む列です。次にターゲットモデルが、すべての推測を 1 回のパスで調べます。最初に同意できないところまでを残し、そこに自分のトークンを一つ置きます。これがボーナストークンです。外れた推測に続くものは捨てられます。</translation>
    </message>
    <message>
        <source>A small, quick helper guesses several ways the text may go on. That is the tree, read from left to right: the thicker a line, the surer the guess. The target then checks all guesses in a single pass. It keeps the longest path it agrees with (the straight line at the top) and adds one token of its own, the bonus token. Everything else is thrown away.</source>
        <translation>小さくてすばやい助手が、テキストの続きを何通りか推測します。それが左から右へ読むツリーで、線が太いほど自信のある推測です。次にターゲットモデルが、すべての推測を 1 回のパスで調べます。同意できる最も長い道筋 (上のまっすぐな線) を残し、自分のトークンを一つ加えます。これがボーナストークンです。ほかはすべて捨てられます。</translation>
    </message>
    <message>
        <source>Acceptance by depth</source>
        <translation>深さごとの受理</translation>
    </message>
    <message>
        <source>Acceptance length: tokens emitted per pass of the target so far, the bonus token included. Without guessing it is 1.</source>
        <translation>受理長: これまでターゲットモデルの 1 パスあたりに出力したトークン数。ボーナストークンを含みます。推測なしでは 1 です。</translation>
    </message>
    <message>
        <source>Accepted</source>
        <translation>受理</translation>
    </message>
    <message>
        <source>Accepted: the target chose this token too</source>
        <translation>受理: ターゲットモデルもこのトークンを選びました</translation>
    </message>
    <message>
        <source>All steps as JSON…</source>
        <translation>すべてのステップを JSON で…</translation>
    </message>
    <message>
        <source>All steps as an animated GIF…</source>
        <translation>すべてのステップをアニメーション GIF で…</translation>
    </message>
    <message>
        <source>Already chosen in the step before; the guesses start from it.</source>
        <translation>前のステップで選ばれたトークン。推測はここから始まります。</translation>
    </message>
    <message>
        <source>An animation holds {most} steps at most; the reply has {total}.</source>
        <translation>アニメーションに入るのは最大 {most} ステップです。この応答には {total} ステップあります。</translation>
    </message>
    <message>
        <source>At step {step}: {notice}</source>
        <translation>ステップ {step}: {notice}</translation>
    </message>
    <message>
        <source>Beside them a window of {rows} over {places}.</source>
        <translation>その横に {rows} × {places} のウィンドウがあります。</translation>
    </message>
    <message>
        <source>Bonus</source>
        <translation>ボーナス</translation>
    </message>
    <message>
        <source>Bonus token</source>
        <translation>ボーナストークン</translation>
    </message>
    <message>
        <source>Bonus token: chosen by the target itself, root of the next step</source>
        <translation>ボーナストークン: ターゲットモデル自身が選択。次のステップのルート</translation>
    </message>
    <message>
        <source>Bonus token: chosen by the target itself. It ends the step and is the next root.</source>
        <translation>ボーナストークン: ターゲットモデル自身が選んだもの。ステップを締めくくり、次のルートになります。</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>キャンセル</translation>
    </message>
    <message>
        <source>Cancelled. Nothing was written.</source>
        <translation>中止しました。何も書き込んでいません。</translation>
    </message>
    <message>
        <source>Choose another file or folder.</source>
        <translation>別のファイルかフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>Choose another folder.</source>
        <translation>別のフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>Chosen by the target</source>
        <translation>ターゲットモデルが選択</translation>
    </message>
    <message>
        <source>Chosen: no guessing, because it would be slower now.</source>
        <translation>選択: 推測なし。今は遅くなるためです。</translation>
    </message>
    <message>
        <source>Chosen: {rows}, {levels}.</source>
        <translation>選択: {rows}、{levels}。</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>コピー</translation>
    </message>
    <message>
        <source>Copy the selected rows, or the whole table</source>
        <translation>選んだ行、または表全体をコピー</translation>
    </message>
    <message>
        <source>Decode speed so far, in tokens per second; the time to read the prompt is left out. In brackets: the last 2 seconds.</source>
        <translation>これまでのデコード速度 (トークン/秒)。プロンプトを読む時間は含みません。括弧内は直近 2 秒。</translation>
    </message>
    <message>
        <source>Depth</source>
        <translation>深さ</translation>
    </message>
    <message>
        <source>Depth {depth}: accepted in {accepted} of {steps} that guessed this far ({share} %)</source>
        <translation>深さ {depth}: ここまで推測した {steps} 回のうち {accepted} 回受理 ({share} %)</translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation>閉じる</translation>
    </message>
    <message>
        <source>Draft</source>
        <translation>ドラフト</translation>
    </message>
    <message>
        <source>Draft rank</source>
        <translation>ドラフト順位</translation>
    </message>
    <message>
        <source>Draft tree</source>
        <translation>ドラフトツリー</translation>
    </message>
    <message>
        <source>Draft tree as a table</source>
        <translation>表で見るドラフトツリー</translation>
    </message>
    <message>
        <source>Draft tree panel</source>
        <translation>ドラフトツリーのパネル</translation>
    </message>
    <message>
        <source>Enter shows a token in the text</source>
        <translation>Enter でテキスト中のトークンを表示</translation>
    </message>
    <message>
        <source>Expected on this machine, by rows that the target checks in one pass:</source>
        <translation>このマシンでの見込み。ターゲットモデルが 1 パスで調べる行数ごと:</translation>
    </message>
    <message>
        <source>Export</source>
        <translation>書き出し</translation>
    </message>
    <message>
        <source>Export…</source>
        <translation>書き出す…</translation>
    </message>
    <message>
        <source>First step (Home)</source>
        <translation>最初のステップ (Home)</translation>
    </message>
    <message>
        <source>Fit</source>
        <translation>全体表示</translation>
    </message>
    <message>
        <source>Fit the whole tree into the view</source>
        <translation>ツリー全体を表示に収める</translation>
    </message>
    <message>
        <source>Follow the reply again (Space)</source>
        <translation>応答の追従を再開 (Space)</translation>
    </message>
    <message>
        <source>Follows</source>
        <translation>直前</translation>
    </message>
    <message>
        <source>Free some space, or choose another disk.</source>
        <translation>空きを作るか、別のディスクを選んでください。</translation>
    </message>
    <message>
        <source>Guesses that the target confirmed, of all guesses so far. Only one path of a tree can be accepted, so the share is low even when guessing does well.</source>
        <translation>これまでの推測のうち、ターゲットモデルが認めたもの。ツリーで受理されるのは一つの道筋だけなので、推測がうまくいっていても割合は低くなります。</translation>
    </message>
    <message>
        <source>Guesses, checked in this pass</source>
        <translation>このパスで調べた推測</translation>
    </message>
    <message>
        <source>Guessing is off: one token per step. There is nothing to draw; the timeline below still shows every step.</source>
        <translation>推測はオフで、1 ステップに 1 トークンです。描くものはありませんが、下のタイムラインには各ステップが表示されます。</translation>
    </message>
    <message>
        <source>Last step (End)</source>
        <translation>最後のステップ (End)</translation>
    </message>
    <message>
        <source>Legend of the draft tree</source>
        <translation>ドラフトツリーの凡例</translation>
    </message>
    <message>
        <source>Live</source>
        <translation>ライブ</translation>
    </message>
    <message>
        <source>Live +{count}</source>
        <translation>ライブ +{count}</translation>
    </message>
    <message>
        <source>No reply yet.
Send a message, and the guesses behind every token grow here.</source>
        <translation>まだ応答がありません。
メッセージを送ると、各トークンの裏にある推測がここに育ちます。</translation>
    </message>
    <message>
        <source>No steps yet</source>
        <translation>まだステップがありません</translation>
    </message>
    <message>
        <source>Not a guess yet: the target works these out on the side, to find the next guesses.</source>
        <translation>まだ推測ではありません。次の推測を見つけるために、ターゲットモデルが並行して計算しています。</translation>
    </message>
    <message>
        <source>Not reached</source>
        <translation>未到達</translation>
    </message>
    <message>
        <source>Not reached: a guess before it was rejected</source>
        <translation>未到達: その前の推測が棄却されました</translation>
    </message>
    <message>
        <source>Nothing has been guessed yet.</source>
        <translation>まだ何も推測していません。</translation>
    </message>
    <message>
        <source>Nothing has been measured yet.</source>
        <translation>まだ何も測定していません。</translation>
    </message>
    <message>
        <source>Nothing may be written into the folder “{folder}”.</source>
        <translation>フォルダー「{folder}」には書き込めません。</translation>
    </message>
    <message>
        <source>Nothing was guessed in this step.</source>
        <translation>このステップでは何も推測しませんでした。</translation>
    </message>
    <message>
        <source>One exception: with “typical acceptance” the target also keeps guesses that it would not have chosen itself. That setting is off unless you choose it.</source>
        <translation>例外が一つあります。「典型受理 (typical acceptance)」では、ターゲットモデルが自分では選ばなかった推測も残します。この設定は、選ばないかぎりオフです。</translation>
    </message>
    <message>
        <source>One step back (Left)</source>
        <translation>1 ステップ戻る (左)</translation>
    </message>
    <message>
        <source>One step forward (Right)</source>
        <translation>1 ステップ進む (右)</translation>
    </message>
    <message>
        <source>Over the last 2 seconds: τ {tau}, {speed} tokens per second</source>
        <translation>直近 2 秒: τ {tau}、{speed} トークン/秒</translation>
    </message>
    <message>
        <source>Pause (Space)</source>
        <translation>一時停止 (Space)</translation>
    </message>
    <message>
        <source>Picture</source>
        <translation>図</translation>
    </message>
    <message>
        <source>Progress of the export</source>
        <translation>書き出しの進み具合</translation>
    </message>
    <message>
        <source>Prompt pass</source>
        <translation>プロンプトのパス</translation>
    </message>
    <message>
        <source>Prompt pass, then {steps}</source>
        <translation>プロンプトのパス、その後 {steps}</translation>
    </message>
    <message>
        <source>Prompt pass: the target read the prompt and chose the first token, {tokens}.</source>
        <translation>プロンプトのパス: ターゲットモデルがプロンプトを読み、最初のトークン {tokens} を選びました。</translation>
    </message>
    <message>
        <source>Reading the prompt…</source>
        <translation>プロンプトを読んでいます…</translation>
    </message>
    <message>
        <source>Rejected</source>
        <translation>棄却</translation>
    </message>
    <message>
        <source>Rejected: the target chose another token here</source>
        <translation>棄却: ターゲットモデルはここで別のトークンを選びました</translation>
    </message>
    <message>
        <source>Rejected: the target chose {token} here</source>
        <translation>棄却: ターゲットモデルはここで {token} を選びました</translation>
    </message>
    <message>
        <source>Root</source>
        <translation>ルート</translation>
    </message>
    <message>
        <source>Root: chosen by the target in the step before</source>
        <translation>ルート: 前のステップでターゲットモデルが選択</translation>
    </message>
    <message>
        <source>Save this step or all steps as a file</source>
        <translation>このステップ、またはすべてのステップをファイルに保存</translation>
    </message>
    <message>
        <source>Saved as {path}.</source>
        <translation>{path} に保存しました。</translation>
    </message>
    <message>
        <source>Scroll the panel</source>
        <translation>パネルをスクロール</translation>
    </message>
    <message>
        <source>Scroll the tree sideways</source>
        <translation>ツリーを左右にスクロール</translation>
    </message>
    <message>
        <source>Scroll the tree up and down</source>
        <translation>ツリーを上下にスクロール</translation>
    </message>
    <message>
        <source>Show the step as a picture</source>
        <translation>ステップを図で表示</translation>
    </message>
    <message>
        <source>Show the step as a table</source>
        <translation>ステップを表で表示</translation>
    </message>
    <message>
        <source>Since step {step}: {notice}</source>
        <translation>ステップ {step} から: {notice}</translation>
    </message>
    <message>
        <source>So one pass can give several tokens, and the target still decides every one of them: wrong guesses cost a little time, never quality. τ (tau) is how many tokens a pass gave on average; without guessing it is 1.</source>
        <translation>こうして 1 回のパスで複数のトークンが得られますが、一つひとつを決めるのはターゲットモデルです。外れた推測は少し時間を使うだけで、質は下がりません。τ (タウ) は 1 パスで得たトークンの平均で、推測なしでは 1 です。</translation>
    </message>
    <message>
        <source>Speed by size</source>
        <translation>大きさごとの速度</translation>
    </message>
    <message>
        <source>Step of the reply</source>
        <translation>応答のステップ</translation>
    </message>
    <message>
        <source>Step {step}</source>
        <translation>ステップ {step}</translation>
    </message>
    <message>
        <source>Step {step} of {last}</source>
        <translation>ステップ {step}/{last}</translation>
    </message>
    <message>
        <source>Step {step}, plain decoding: the target chose {tokens}.</source>
        <translation>ステップ {step}、通常デコード: ターゲットモデルは {tokens} を選びました。</translation>
    </message>
    <message>
        <source>Step {step}: {accepted} of {guesses} accepted, {count} emitted: {tokens}.</source>
        <translation>ステップ {step}: {guesses} のうち {accepted} 個を受理、{count} を出力: {tokens}。</translation>
    </message>
    <message>
        <source>Table</source>
        <translation>表</translation>
    </message>
    <message>
        <source>Target</source>
        <translation>ターゲット</translation>
    </message>
    <message>
        <source>Target rank</source>
        <translation>ターゲット順位</translation>
    </message>
    <message>
        <source>Target token</source>
        <translation>ターゲットモデルのトークン</translation>
    </message>
    <message>
        <source>The course of a reply appears here.</source>
        <translation>応答の経過がここに表示されます。</translation>
    </message>
    <message>
        <source>The draft gave it {percent}</source>
        <translation>ドラフトの確率は {percent}</translation>
    </message>
    <message>
        <source>The file could not be made: {reason}.</source>
        <translation>ファイルを作成できませんでした: {reason}。</translation>
    </message>
    <message>
        <source>The guesses of this early step were given up to save memory; its token and figures are kept.</source>
        <translation>この初期のステップの推測は、メモリーを節約するために破棄しました。トークンと数値は残っています。</translation>
    </message>
    <message>
        <source>The helper at work is called {name}. {about}</source>
        <translation>働いている助手の名前は {name} です。{about}</translation>
    </message>
    <message numerus="yes">
        <source>The last %n steps up to here as an animated GIF…</source>
        <translation>
            <numerusform>ここまでの直近 %n ステップをアニメーション GIF で…</numerusform>
        </translation>
    </message>
    <message>
        <source>The reply ended before its first token.</source>
        <translation>最初のトークンの前に応答が終わりました。</translation>
    </message>
    <message>
        <source>The target gave it {percent}</source>
        <translation>ターゲットモデルの確率は {percent}</translation>
    </message>
    <message>
        <source>The target read the prompt and chose this token by itself. Guessing starts from it.</source>
        <translation>ターゲットモデルがプロンプトを読み、自分でこのトークンを選びました。推測はここから始まります。</translation>
    </message>
    <message>
        <source>The text's last words, {words}, also stood {where}. The guesses are what followed them there.</source>
        <translation>テキストの末尾 {words} は、{where}にもありました。そこで続いていたものを推測とします。</translation>
    </message>
    <message>
        <source>There is no folder “{folder}”.</source>
        <translation>フォルダー「{folder}」がありません。</translation>
    </message>
    <message>
        <source>There is no helper here: the target guesses for itself. In the grid it fills in several places of the text ahead at once, roughly at first and better with every pass. Sequences of words that come up there are collected, and those that begin with the text's last token stand above as guesses. The target checks them in the same pass, keeps the longest beginning that it agrees with and adds a token of its own, the bonus token.</source>
        <translation>ここに助手はいません。ターゲットモデルが自分で推測します。格子では、テキストの先の複数の位置を同時に埋めていきます。はじめは大まかに、パスを重ねるごとに良くなります。そこで現れた語の並びを集め、テキストの最後のトークンで始まるものが、上に推測として並びます。ターゲットモデルは同じパスでそれらを調べ、同意できる最も長い先頭部分を残し、自分のトークンを一つ加えます。これがボーナストークンです。</translation>
    </message>
    <message>
        <source>There is no room left on the disk for “{name}”.</source>
        <translation>「{name}」を置く空きがディスクにありません。</translation>
    </message>
    <message>
        <source>This step as PNG…</source>
        <translation>このステップを PNG で…</translation>
    </message>
    <message>
        <source>This step as SVG…</source>
        <translation>このステップを SVG で…</translation>
    </message>
    <message>
        <source>Time of this step</source>
        <translation>このステップの時間</translation>
    </message>
    <message>
        <source>Token</source>
        <translation>トークン</translation>
    </message>
    <message>
        <source>Token id</source>
        <translation>トークン ID</translation>
    </message>
    <message>
        <source>Token {token}, id {id}</source>
        <translation>トークン {token}、ID {id}</translation>
    </message>
    <message>
        <source>Tokens per step</source>
        <translation>1 ステップあたりのトークン</translation>
    </message>
    <message>
        <source>Try another format; the log has the details.</source>
        <translation>別の形式を試してください。詳細はログにあります。</translation>
    </message>
    <message>
        <source>Verdict</source>
        <translation>判定</translation>
    </message>
    <message>
        <source>What am I looking at?</source>
        <translation>これは何ですか</translation>
    </message>
    <message>
        <source>What the target would have given it was not worked out</source>
        <translation>ターゲットモデルの確率は計算していません</translation>
    </message>
    <message>
        <source>Which pass of the target is shown.</source>
        <translation>表示中のターゲットモデルのパス。</translation>
    </message>
    <message>
        <source>Window</source>
        <translation>ウィンドウ</translation>
    </message>
    <message>
        <source>Window ({row}): not a guess, but where the next guesses come from</source>
        <translation>ウィンドウ ({row}): 推測ではなく、次の推測の元になるもの</translation>
    </message>
    <message>
        <source>Window: places ahead that the target fills in on the side</source>
        <translation>ウィンドウ: ターゲットモデルが並行して埋める先の位置</translation>
    </message>
    <message>
        <source>Writing “{name}”…</source>
        <translation>「{name}」を書き込んでいます…</translation>
    </message>
    <message>
        <source>Zoom in (Ctrl++)</source>
        <translation>拡大 (Ctrl++)</translation>
    </message>
    <message>
        <source>Zoom out (Ctrl+−)</source>
        <translation>縮小 (Ctrl+−)</translation>
    </message>
    <message>
        <source>a token</source>
        <translation>トークン一つ</translation>
    </message>
    <message>
        <source>accept</source>
        <translation>受理</translation>
    </message>
    <message>
        <source>accepted/drafted</source>
        <translation>受理/ドラフト</translation>
    </message>
    <message>
        <source>accepted/drafted, {share} %</source>
        <translation>受理/ドラフト、{share} %</translation>
    </message>
    <message>
        <source>and the whole path {percent}</source>
        <translation>道筋全体では {percent}</translation>
    </message>
    <message>
        <source>draft</source>
        <translation>ドラフト</translation>
    </message>
    <message>
        <source>draft: the guesses are made. verify: the target checks all of them in one pass. accept: choosing the path and tidying the cache. other: the rest.</source>
        <translation>ドラフト: 推測を作る。検証: ターゲットモデルが 1 パスですべてを調べる。受理: 道筋を選び、キャッシュを整える。その他: 残り。</translation>
    </message>
    <message>
        <source>none</source>
        <translation>なし</translation>
    </message>
    <message>
        <source>other</source>
        <translation>その他</translation>
    </message>
    <message>
        <source>prompt</source>
        <translation>プロンプト</translation>
    </message>
    <message>
        <source>step</source>
        <translation>ステップ</translation>
    </message>
    <message>
        <source>step of {last}</source>
        <translation>ステップ/{last}</translation>
    </message>
    <message>
        <source>tokens per step (τ)</source>
        <translation>1 ステップあたりのトークン (τ)</translation>
    </message>
    <message>
        <source>tokens/s</source>
        <translation>トークン/秒</translation>
    </message>
    <message>
        <source>tokens/s (now {speed})</source>
        <translation>トークン/秒 (今 {speed})</translation>
    </message>
    <message>
        <source>tokens/s, up to {speed}</source>
        <translation>トークン/秒、最大 {speed}</translation>
    </message>
    <message numerus="yes">
        <source>up to %n rows</source>
        <translation>
            <numerusform>最大 %n 行</numerusform>
        </translation>
    </message>
    <message>
        <source>verify</source>
        <translation>検証</translation>
    </message>
    <message>
        <source>without guessing: {speed} tokens/s</source>
        <translation>推測なし: {speed} トークン/秒</translation>
    </message>
    <message>
        <source>{accepted} of {drafted} guesses accepted so far</source>
        <translation>これまで {drafted} 個中 {accepted} 個の推測を受理</translation>
    </message>
    <message>
        <source>{kind}, depth {depth}</source>
        <translation>{kind}、深さ {depth}</translation>
    </message>
    <message>
        <source>{rows}: {speed} tokens/s, {tokens} tokens a step</source>
        <translation>{rows}: {speed} トークン/秒、1 ステップ {tokens} トークン</translation>
    </message>
    <message>
        <source>{speed} tokens/s</source>
        <translation>{speed} トークン/秒</translation>
    </message>
    <message>
        <source>{steps}, {least} to {most} tokens each; lately τ {tau} and {speed} tokens per second</source>
        <translation>{steps}、各 {least}～{most} トークン。直近は τ {tau}、{speed} トークン/秒</translation>
    </message>
    <message>
        <source>{step}: {tokens}</source>
        <translation>{step}: {tokens}</translation>
    </message>
    <message>
        <source>{total} in all: {parts}</source>
        <translation>合計 {total}: {parts}</translation>
    </message>
    <message>
        <source>“{name}” could not be written: {reason}.</source>
        <translation>「{name}」に書き込めませんでした: {reason}。</translation>
    </message>
</context>
<context>
    <name>Reply</name>
    <message>
        <source>Acceptance length τ: tokens gained per pass of the target model, the bonus token included. Plain decoding has 1.</source>
        <translation>受理長 τ: ターゲットモデルの 1 パスで得たトークン数。ボーナストークンを含みます。通常デコードでは 1 です。</translation>
    </message>
    <message>
        <source>Continue this reply</source>
        <translation>この応答を続ける</translation>
    </message>
    <message>
        <source>Conversation</source>
        <translation>会話</translation>
    </message>
    <message>
        <source>Copy this code</source>
        <translation>このコードをコピー</translation>
    </message>
    <message>
        <source>Copy this code ({language})</source>
        <translation>このコードをコピー ({language})</translation>
    </message>
    <message>
        <source>Copy this prompt</source>
        <translation>このプロンプトをコピー</translation>
    </message>
    <message>
        <source>Copy this reply</source>
        <translation>この応答をコピー</translation>
    </message>
    <message>
        <source>Copy this reply as Markdown</source>
        <translation>この応答を Markdown としてコピー</translation>
    </message>
    <message numerus="yes">
        <source>Drafted: {count} tokens, accepted {accepted} ({share})</source>
        <translation>
            <numerusform>ドラフト: {count} トークン、受理 {accepted} ({share})</numerusform>
        </translation>
    </message>
    <message>
        <source>EAGLE</source>
        <translation>EAGLE</translation>
    </message>
    <message>
        <source>Edit this prompt</source>
        <translation>このプロンプトを編集</translation>
    </message>
    <message>
        <source>Go to the newest text</source>
        <translation>最新のテキストへ</translation>
    </message>
    <message>
        <source>Opens only after you confirm: {address}</source>
        <translation>確認の後に開きます: {address}</translation>
    </message>
    <message>
        <source>Passes of the target after the prompt: {count}</source>
        <translation>プロンプト後のターゲットモデルのパス: {count}</translation>
    </message>
    <message numerus="yes">
        <source>Prompt: {count} tokens, {reused} of them kept from the turn before</source>
        <translation>
            <numerusform>プロンプト: {count} トークン、うち {reused} は前回から保持</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Reading the prompt ({count} tokens)…</source>
        <translation>
            <numerusform>プロンプトを読んでいます ({count} トークン)…</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Reading the prompt: {done} of {count} tokens</source>
        <translation>
            <numerusform>プロンプトを読んでいます: {count} トークン中 {done}</numerusform>
        </translation>
    </message>
    <message>
        <source>Reply</source>
        <translation>応答</translation>
    </message>
    <message>
        <source>Reply of the model</source>
        <translation>モデルの応答</translation>
    </message>
    <message>
        <source>Reply of {model}</source>
        <translation>{model} の応答</translation>
    </message>
    <message numerus="yes">
        <source>Show all {count} lines</source>
        <translation>
            <numerusform>{count} 行すべてを表示</numerusform>
        </translation>
    </message>
    <message>
        <source>Show or hide what the model thought before it answered</source>
        <translation>答える前にモデルが考えたことの表示を切り替え</translation>
    </message>
    <message numerus="yes">
        <source>Show {count} earlier messages</source>
        <translation>
            <numerusform>以前のメッセージ {count} 件を表示</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Show {some} of {count} lines more</source>
        <translation>
            <numerusform>残り {count} 行のうち {some} 行を表示</numerusform>
        </translation>
    </message>
    <message>
        <source>Step {number}: chosen by the target</source>
        <translation>ステップ {number}: ターゲットモデルが選択</translation>
    </message>
    <message>
        <source>Step {number}: drafted, and accepted by the target</source>
        <translation>ステップ {number}: ドラフトし、ターゲットモデルが受理</translation>
    </message>
    <message>
        <source>Thinking… {length}</source>
        <translation>考えています… {length}</translation>
    </message>
    <message>
        <source>Thought for about {time} · {length}</source>
        <translation>約 {time} 考えました · {length}</translation>
    </message>
    <message>
        <source>Thoughts of the model</source>
        <translation>モデルの思考</translation>
    </message>
    <message>
        <source>Thoughts of {model}</source>
        <translation>{model} の思考</translation>
    </message>
    <message>
        <source>Thoughts · {length}</source>
        <translation>思考 · {length}</translation>
    </message>
    <message>
        <source>Tokens per second while writing; reading the prompt is left out.</source>
        <translation>書いている間の毎秒トークン数。プロンプトを読む時間は含みません。</translation>
    </message>
    <message>
        <source>Version after</source>
        <translation>次の版</translation>
    </message>
    <message>
        <source>Version before</source>
        <translation>前の版</translation>
    </message>
    <message>
        <source>Version {place} of {count}</source>
        <translation>版 {place}/{count}</translation>
    </message>
    <message>
        <source>Waiting for the engine…</source>
        <translation>エンジンを待っています…</translation>
    </message>
    <message>
        <source>Write this reply again</source>
        <translation>この応答を書き直す</translation>
    </message>
    <message>
        <source>Your prompt</source>
        <translation>あなたのプロンプト</translation>
    </message>
    <message>
        <source>complete</source>
        <translation>完了</translation>
    </message>
    <message>
        <source>context is full</source>
        <translation>コンテキストが満杯</translation>
    </message>
    <message>
        <source>ended by an error</source>
        <translation>エラーで終了</translation>
    </message>
    <message>
        <source>first token after {time}</source>
        <translation>最初のトークンまで {time}</translation>
    </message>
    <message>
        <source>length limit reached</source>
        <translation>長さの上限に到達</translation>
    </message>
    <message>
        <source>mixed</source>
        <translation>混合</translation>
    </message>
    <message>
        <source>plain</source>
        <translation>通常</translation>
    </message>
    <message>
        <source>stopped by you</source>
        <translation>あなたが停止</translation>
    </message>
    <message>
        <source>text</source>
        <translation>テキスト</translation>
    </message>
    <message numerus="yes">
        <source>{count} tokens</source>
        <translation>
            <numerusform>{count} トークン</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} words</source>
        <translation>
            <numerusform>{count} 語</numerusform>
        </translation>
    </message>
    <message>
        <source>{name}, part {number}</source>
        <translation>{name}、その {number}</translation>
    </message>
    <message>
        <source>{number} ms</source>
        <translation>{number} ミリ秒</translation>
    </message>
    <message>
        <source>{number} s</source>
        <translation>{number} 秒</translation>
    </message>
    <message>
        <source>{number} tokens/s</source>
        <translation>{number} トークン/秒</translation>
    </message>
</context>
<context>
    <name>Settings</name>
    <message>
        <source> min</source>
        <translation> 分</translation>
    </message>
    <message>
        <source> pt</source>
        <translation> pt</translation>
    </message>
    <message>
        <source>0 (greedy)</source>
        <translation>0 (貪欲)</translation>
    </message>
    <message>
        <source>0 takes the likeliest token each time; higher is freer.</source>
        <translation>0 は毎回もっとも確率の高いトークンを選びます。大きいほど自由になります。</translation>
    </message>
    <message>
        <source>Above 1 makes what was said less likely; 1 is off.</source>
        <translation>1 より大きいと、すでに出たものが出にくくなります。1 でオフです。</translation>
    </message>
    <message>
        <source>An unloaded model comes back with the next prompt.</source>
        <translation>解放されたモデルは、次のプロンプトで戻ります。</translation>
    </message>
    <message>
        <source>Appearance</source>
        <translation>外観</translation>
    </message>
    <message>
        <source>As the system</source>
        <translation>システムに従う</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>自動</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>閉じる</translation>
    </message>
    <message>
        <source>Dark</source>
        <translation>ダーク</translation>
    </message>
    <message>
        <source>Depth</source>
        <translation>深さ</translation>
    </message>
    <message>
        <source>Different each time</source>
        <translation>毎回異なる</translation>
    </message>
    <message>
        <source>Draft tree</source>
        <translation>ドラフトツリー</translation>
    </message>
    <message>
        <source>Drops tokens below this share of the likeliest one's probability; 0 is off.</source>
        <translation>最も確率の高いトークンに対する割合がこれに満たないトークンを除きます。0 でオフです。</translation>
    </message>
    <message>
        <source>Eyrie speaks it when it is started the next time.</source>
        <translation>次に起動したときからこの言語になります。</translation>
    </message>
    <message>
        <source>Follow the system</source>
        <translation>システムに従う</translation>
    </message>
    <message>
        <source>Font size</source>
        <translation>文字サイズ</translation>
    </message>
    <message>
        <source>Frequency penalty</source>
        <translation>頻度ペナルティ</translation>
    </message>
    <message>
        <source>Gives the GPU back when nothing was asked for so long.</source>
        <translation>この時間だけ使われないと、GPU を空けます。</translation>
    </message>
    <message>
        <source>How far the EAGLE head guesses ahead: changes the speed, not what the model would choose.</source>
        <translation>EAGLE ヘッドがどこまで先を推測するか。速度は変わりますが、モデルの選択は変わりません。</translation>
    </message>
    <message>
        <source>Keeps the likeliest tokens that together have this probability.</source>
        <translation>確率の高い順に、合計がこの確率になるまでのトークンを残します。</translation>
    </message>
    <message>
        <source>Keeps this many of the likeliest tokens; 0 switches the filter off.</source>
        <translation>確率の高い順にこの数のトークンを残します。0 でフィルターはオフです。</translation>
    </message>
    <message>
        <source>Language</source>
        <translation>言語</translation>
    </message>
    <message>
        <source>Levels below the root.</source>
        <translation>ルートより下の段数。</translation>
    </message>
    <message>
        <source>Light</source>
        <translation>ライト</translation>
    </message>
    <message>
        <source>Longest reply (tokens)</source>
        <translation>応答の最大長 (トークン)</translation>
    </message>
    <message>
        <source>Mark accepted draft tokens in replies</source>
        <translation>応答の中の受理されたドラフトトークンに印を付ける</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>メモリー</translation>
    </message>
    <message>
        <source>Min-p</source>
        <translation>Min-p</translation>
    </message>
    <message>
        <source>Never</source>
        <translation>しない</translation>
    </message>
    <message>
        <source>No repeat of</source>
        <translation>繰り返し禁止の長さ</translation>
    </message>
    <message>
        <source>Nodes</source>
        <translation>ノード</translation>
    </message>
    <message>
        <source>Own value</source>
        <translation>独自の値</translation>
    </message>
    <message>
        <source>Presence penalty</source>
        <translation>存在ペナルティ</translation>
    </message>
    <message>
        <source>Reduce motion: show new text and trees a few times a second</source>
        <translation>動きを減らす: 新しいテキストとツリーを毎秒数回だけ表示</translation>
    </message>
    <message>
        <source>Repetition penalty</source>
        <translation>繰り返しペナルティ</translation>
    </message>
    <message>
        <source>Replies</source>
        <translation>応答</translation>
    </message>
    <message>
        <source>Restore defaults</source>
        <translation>既定値に戻す</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>シード</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>設定</translation>
    </message>
    <message>
        <source>So many tokens in a row never come twice; 0 is off.</source>
        <translation>この数だけ連続するトークンを二度出しません。0 でオフです。</translation>
    </message>
    <message>
        <source>Some settings were not valid and have their default again: {names}.</source>
        <translation>一部の設定が正しくなかったため、既定値に戻しました: {names}。</translation>
    </message>
    <message>
        <source>Taken from tokens that the reply has already; 0 is off.</source>
        <translation>応答にすでにあるトークンから差し引きます。0 でオフです。</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>温度</translation>
    </message>
    <message>
        <source>The old file is kept as {file}.</source>
        <translation>以前のファイルは {file} として残しています。</translation>
    </message>
    <message>
        <source>The same for each time that it has them; 0 is off.</source>
        <translation>同じことを、出た回数だけ行います。0 でオフです。</translation>
    </message>
    <message>
        <source>The same seed and settings give the same reply again.</source>
        <translation>同じシードと設定なら、同じ応答になります。</translation>
    </message>
    <message>
        <source>The settings could not be saved: {error}.</source>
        <translation>設定を保存できませんでした: {error}。</translation>
    </message>
    <message>
        <source>The settings file could not be read, so the defaults apply.</source>
        <translation>設定ファイルを読めなかったため、既定値を使います。</translation>
    </message>
    <message>
        <source>The window speaks it once these settings are closed and nothing is being written.</source>
        <translation>この設定を閉じ、書き込み中のものがなくなると、ウィンドウがこの言語に切り替わります。</translation>
    </message>
    <message>
        <source>Theme</source>
        <translation>テーマ</translation>
    </message>
    <message>
        <source>Tokens checked in one pass of the target, the root included.</source>
        <translation>ターゲットモデルの 1 パスで調べるトークン数。ルートを含みます。</translation>
    </message>
    <message>
        <source>Top-k</source>
        <translation>Top-k</translation>
    </message>
    <message>
        <source>Top-p</source>
        <translation>Top-p</translation>
    </message>
    <message>
        <source>Unload after</source>
        <translation>解放までの時間</translation>
    </message>
    <message>
        <source>Unload without use</source>
        <translation>未使用時に解放</translation>
    </message>
    <message>
        <source>Used from the next reply on.</source>
        <translation>次の応答から使われます。</translation>
    </message>
    <message>
        <source>off</source>
        <translation>オフ</translation>
    </message>
    <message>
        <source>{setting}: own value</source>
        <translation>{setting}: 独自の値</translation>
    </message>
    <message>
        <source>{setting}: {choice}</source>
        <translation>{setting}: {choice}</translation>
    </message>
</context>
<context>
    <name>Shortcuts</name>
    <message>
        <source>Command</source>
        <translation>コマンド</translation>
    </message>
    <message>
        <source>Draft tree: first and last step</source>
        <translation>ドラフトツリー: 最初と最後のステップ</translation>
    </message>
    <message>
        <source>Draft tree: hold and follow</source>
        <translation>ドラフトツリー: 停止と追従</translation>
    </message>
    <message>
        <source>Draft tree: step before, step after</source>
        <translation>ドラフトツリー: 前と次のステップ</translation>
    </message>
    <message>
        <source>In the parts of the window</source>
        <translation>ウィンドウの各部</translation>
    </message>
    <message>
        <source>Keyboard shortcuts</source>
        <translation>キーボードショートカット</translation>
    </message>
    <message>
        <source>Keys</source>
        <translation>キー</translation>
    </message>
    <message>
        <source>List of chats: delete</source>
        <translation>チャットの一覧: 削除</translation>
    </message>
    <message>
        <source>New line in the prompt</source>
        <translation>プロンプト内で改行</translation>
    </message>
    <message>
        <source>Send the prompt</source>
        <translation>プロンプトを送信</translation>
    </message>
</context>
<context>
    <name>Start</name>
    <message>
        <source>Another Eyrie uses this data folder and does not answer. End it, or choose another folder with --data-dir.</source>
        <translation>別の Eyrie がこのデータフォルダーを使用中ですが、応答しません。終了させるか、--data-dir で別のフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>Eyrie cannot use its data folder: {error}. Choose another with --data-dir, or free what is in the way.</source>
        <translation>Eyrie のデータフォルダーを使えません: {error}。--data-dir で別のフォルダーを選ぶか、妨げになっているものを取り除いてください。</translation>
    </message>
</context>
<context>
    <name>Tool bar</name>
    <message>
        <source>Compare</source>
        <translation>比較</translation>
    </message>
    <message>
        <source>Draft with {head} (Ctrl+E): changes the speed, not what the model would choose.</source>
        <translation>{head} でドラフト (Ctrl+E): 速度は変わりますが、モデルの選択は変わりません。</translation>
    </message>
    <message>
        <source>EAGLE can be switched once a model is loaded.</source>
        <translation>EAGLE はモデルを読み込むと切り替えられます。</translation>
    </message>
    <message>
        <source>EAGLE not available</source>
        <translation>EAGLE は使えません</translation>
    </message>
    <message>
        <source>The menu beside it has methods that need none.</source>
        <translation>横のメニューに、ヘッドの要らない方式があります。</translation>
    </message>
    <message>
        <source>This model has no EAGLE head.</source>
        <translation>このモデルには EAGLE ヘッドがありません。</translation>
    </message>
    <message>
        <source>Tools</source>
        <translation>ツール</translation>
    </message>
    <message>
        <source>{about} (Ctrl+E)</source>
        <translation>{about} (Ctrl+E)</translation>
    </message>
    <message>
        <source>{method} off</source>
        <translation>{method} オフ</translation>
    </message>
    <message>
        <source>{method} on</source>
        <translation>{method} オン</translation>
    </message>
</context>
<context>
    <name>Tour</name>
    <message>
        <source>A small head guesses several words ahead; the model checks all guesses at once. Here you see which it accepted. The reply stays the model's own, it only comes faster.</source>
        <translation>小さなヘッドが数語先まで推測し、モデルがすべての推測を一度に調べます。どれを受理したかがここに見えます。応答はモデル自身のもので、速くなるだけです。</translation>
    </message>
    <message>
        <source>Done</source>
        <translation>完了</translation>
    </message>
    <message>
        <source>EAGLE on and off</source>
        <translation>EAGLE のオンとオフ</translation>
    </message>
    <message>
        <source>Everything runs on this computer. Enter sends, Esc stops a reply; what came stays.</source>
        <translation>すべてこのコンピューターの中で動きます。Enter で送信、Esc で応答を停止。届いた分は残ります。</translation>
    </message>
    <message>
        <source>Next</source>
        <translation>次へ</translation>
    </message>
    <message>
        <source>Skip</source>
        <translation>スキップ</translation>
    </message>
    <message>
        <source>Switch the guessing off to see the difference, or compare both side by side.</source>
        <translation>推測をオフにすると違いがわかります。両方を並べて比較することもできます。</translation>
    </message>
    <message>
        <source>The draft tree</source>
        <translation>ドラフトツリー</translation>
    </message>
    <message>
        <source>They are kept on this computer as you write. Search in all of them with Ctrl+F; every command is found with Ctrl+K, and ? lists the keys.</source>
        <translation>書くそばから、このコンピューターに保存されます。Ctrl+F で全体を検索、Ctrl+K ですべてのコマンドを検索、? でキーの一覧を表示します。</translation>
    </message>
    <message>
        <source>Tour of the window</source>
        <translation>ウィンドウの案内</translation>
    </message>
    <message>
        <source>Write here</source>
        <translation>ここに書きます</translation>
    </message>
    <message>
        <source>Your chats</source>
        <translation>あなたのチャット</translation>
    </message>
    <message>
        <source>{place} of {stops}</source>
        <translation>{place}/{stops}</translation>
    </message>
</context>
<context>
    <name>Window</name>
    <message>
        <source>Diagnostics copied</source>
        <translation>診断情報をコピーしました</translation>
    </message>
    <message>
        <source>Loading…</source>
        <translation>読み込み中…</translation>
    </message>
    <message>
        <source>Model unloaded</source>
        <translation>モデルは解放されています</translation>
    </message>
    <message>
        <source>No model</source>
        <translation>モデルなし</translation>
    </message>
    <message>
        <source>Ready</source>
        <translation>準備完了</translation>
    </message>
    <message numerus="yes">
        <source>Reply finished, {count} tokens.</source>
        <translation>
            <numerusform>応答が完了しました。{count} トークン。</numerusform>
        </translation>
    </message>
    <message>
        <source>The next reply is drafted that way; this one goes on as it began.</source>
        <translation>次の返信からこの方法でドラフトします。書きかけの返信はそのまま続きます。</translation>
    </message>
    <message>
        <source>Unloaded</source>
        <translation>解放済み</translation>
    </message>
    <message>
        <source>Writing</source>
        <translation>書いています</translation>
    </message>
    <message>
        <source>Your prompt is sent as soon as the model is loaded. Esc takes it back.</source>
        <translation>プロンプトはモデルを読み込みしだい送信されます。Esc で取り消せます。</translation>
    </message>
</context>
<context>
    <name>engine</name>
    <message>
        <source>A guess that the drafter gives less than this gets no guesses of its own; 0.2 to 0.4 are usual, 0 switches it off.</source>
        <translation>ドラフターの確率がこれに満たない推測には、その先の推測を作りません。通常は 0.2～0.4、0 でオフです。</translation>
    </message>
    <message>
        <source>A guess with this probability always stands under typical acceptance.</source>
        <translation>典型受理では、この確率の推測は必ず認められます。</translation>
    </message>
    <message>
        <source>A logit bias names a token that the model does not have.</source>
        <translation>ロジットバイアスが、モデルにないトークンを指定しています。</translation>
    </message>
    <message>
        <source>A mixture of experts, where drafting gains little.</source>
        <translation>専門家混合モデルで、ドラフトの効果はわずかです。</translation>
    </message>
    <message>
        <source>A mixture of experts. Its makers measured acceptance lengths of 3.4 to 5.3 on HumanEval.</source>
        <translation>専門家混合モデル。作者は HumanEval で受理長 3.4～5.3 を測定しています。</translation>
    </message>
    <message>
        <source>A mixture of experts: bitsandbytes does not quantise its experts, so that it needs far more than 24 GB.</source>
        <translation>専門家混合モデル。bitsandbytes は専門家を量子化しないため、24 GB を大きく超えるメモリーが必要です。</translation>
    </message>
    <message>
        <source>A mixture of experts: bitsandbytes does not quantise its experts.</source>
        <translation>専門家混合モデル。bitsandbytes は専門家を量子化しません。</translation>
    </message>
    <message>
        <source>A network that asks for a login answers with its own page: open any page in a browser. If HF_ENDPOINT is set, check it.</source>
        <translation>ログインを求めるネットワークは独自のページを返します。ブラウザーで何かページを開いてください。HF_ENDPOINT を設定している場合は確認してください。</translation>
    </message>
    <message>
        <source>A part of the demo model is damaged: {0} has the SHA-256 {1}… where {2}… is expected.</source>
        <translation>デモモデルの一部が壊れています: {0} の SHA-256 は {1}… ですが、{2}… が期待されます。</translation>
    </message>
    <message>
        <source>A part of the demo model is damaged: {0} has {1} bytes where {2} are expected.</source>
        <translation>デモモデルの一部が壊れています: {0} は {1} バイトですが、{2} バイトが期待されます。</translation>
    </message>
    <message>
        <source>A part of the demo model is missing: {0}.</source>
        <translation>デモモデルの一部がありません: {0}。</translation>
    </message>
    <message>
        <source>A small head continues states from three depths of the model; the tree grows where the head is sure.</source>
        <translation>小さなヘッドがモデルの三つの深さの状態を先へ進めます。ツリーはヘッドに自信のある所で伸びます。</translation>
    </message>
    <message>
        <source>A small head continues the model's last state; the tree grows where the head is sure of itself.</source>
        <translation>小さなヘッドがモデルの最後の状態を先へ進めます。ツリーはヘッドに自信のある所で伸びます。</translation>
    </message>
    <message>
        <source>A small head guesses along a tree of fixed shape. Any EAGLE head can be used, so that the fixed tree can be compared with the growing one.</source>
        <translation>小さなヘッドが決まった形のツリーに沿って推測します。どの EAGLE ヘッドでも使えるため、固定ツリーと伸びるツリーを比べられます。</translation>
    </message>
    <message>
        <source>A smaller model of the same family writes ahead, and the large one checks.</source>
        <translation>同じ系列の小さなモデルが先に書き、大きなモデルが調べます。</translation>
    </message>
    <message>
        <source>AWQ of version “{0}” is not known.</source>
        <translation>AWQ のバージョン「{0}」は未対応です。</translation>
    </message>
    <message>
        <source>Accept its licence on its page (some owners confirm by hand), then try again.</source>
        <translation>ページでライセンスに同意し (手作業で承認する所有者もいます)、もう一度試してください。</translation>
    </message>
    <message>
        <source>Accept its licence on its page, then enter an access token of your account.</source>
        <translation>ページでライセンスに同意し、アカウントのアクセストークンを入力してください。</translation>
    </message>
    <message>
        <source>Acceptance</source>
        <translation>受理</translation>
    </message>
    <message>
        <source>AngelSlim benchmarks with vLLM, one GPU, a chain of drafts</source>
        <translation>AngelSlim のベンチマーク。vLLM、GPU 1 基、ドラフトの連鎖</translation>
    </message>
    <message>
        <source>At temperatures above 0, draw guesses from the drafter's own distribution, as published, and verify them by p/q. Off: try its likeliest tokens; a seed's text is then that of plain decoding.</source>
        <translation>温度が 0 より大きいとき、論文どおりドラフター自身の分布から推測を抽選し、p/q で検証します。オフ: 最も確率の高いトークンを試します。同じシードのテキストは通常デコードと同じになります。</translation>
    </message>
    <message>
        <source>Branches</source>
        <translation>枝</translation>
    </message>
    <message>
        <source>Cancel this download and start it again to get the new version.</source>
        <translation>このダウンロードを中止してやり直すと、新しい版を取得します。</translation>
    </message>
    <message>
        <source>Check HTTP_PROXY, HTTPS_PROXY and NO_PROXY, or the system's proxy settings, then start Eyrie again.</source>
        <translation>HTTP_PROXY、HTTPS_PROXY、NO_PROXY、またはシステムのプロキシ設定を確認し、Eyrie を再起動してください。</translation>
    </message>
    <message>
        <source>Check its permissions and its drive, or choose another.</source>
        <translation>アクセス権とドライブを確認するか、別のものを選んでください。</translation>
    </message>
    <message>
        <source>Check its permissions, or choose another cache folder with HF_HUB_CACHE.</source>
        <translation>権限を確認するか、HF_HUB_CACHE で別のキャッシュフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>Check that the folder holds a whole model, or download it again.</source>
        <translation>フォルダーにモデル全体があるか確認するか、ダウンロードし直してください。</translation>
    </message>
    <message>
        <source>Check the connection and the proxy settings, or set HF_ENDPOINT to a mirror.</source>
        <translation>接続とプロキシ設定を確認するか、HF_ENDPOINT にミラーを設定してください。</translation>
    </message>
    <message>
        <source>Check the name. A private repository needs a token that may read it.</source>
        <translation>名前を確認してください。非公開のリポジトリには、それを読めるトークンが必要です。</translation>
    </message>
    <message>
        <source>Check the permissions of that folder, or set EYRIE_DATA_DIR to one that can be written.</source>
        <translation>フォルダーの権限を確認するか、EYRIE_DATA_DIR を書き込めるフォルダーに設定してください。</translation>
    </message>
    <message>
        <source>Check the rights of the token.</source>
        <translation>トークンの権限を確認してください。</translation>
    </message>
    <message>
        <source>Checking the demo model</source>
        <translation>デモモデルを確認しています</translation>
    </message>
    <message>
        <source>Checking the file</source>
        <translation>ファイルを確認しています</translation>
    </message>
    <message>
        <source>Checking the head</source>
        <translation>ヘッドを確認しています</translation>
    </message>
    <message>
        <source>Children considered for each node, and nodes expanded at each level.</source>
        <translation>ノードごとに検討する子の数と、段ごとに広げるノードの数。</translation>
    </message>
    <message>
        <source>Choose a .gguf file, or a folder with a model.</source>
        <translation>.gguf ファイルか、モデルのあるフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>Choose a Llama, Mistral, Qwen or Gemma model.</source>
        <translation>Llama、Mistral、Qwen、Gemma のモデルを選んでください。</translation>
    </message>
    <message>
        <source>Choose a folder that holds a model, or a .gguf file.</source>
        <translation>モデルのあるフォルダーか、.gguf ファイルを選んでください。</translation>
    </message>
    <message>
        <source>Choose a folder that holds config.json and model.safetensors.</source>
        <translation>config.json と model.safetensors のあるフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>Choose a head made for this model, or chat without one.</source>
        <translation>このモデル用のヘッドを選ぶか、ヘッドなしでチャットしてください。</translation>
    </message>
    <message>
        <source>Choose a head made for this model.</source>
        <translation>このモデル用のヘッドを選んでください。</translation>
    </message>
    <message>
        <source>Choose a head that reads three layers.</source>
        <translation>三つの層を読むヘッドを選んでください。</translation>
    </message>
    <message>
        <source>Choose a model that ships one, or download it again.</source>
        <translation>付属しているモデルを選ぶか、ダウンロードし直してください。</translation>
    </message>
    <message>
        <source>Choose a newer file of this model.</source>
        <translation>このモデルの新しいファイルを選んでください。</translation>
    </message>
    <message>
        <source>Choose a version of the model in the safetensors format.</source>
        <translation>safetensors 形式のモデルを選んでください。</translation>
    </message>
    <message>
        <source>Choose a version of the model that has a tokenizer.json.</source>
        <translation>tokenizer.json のある版のモデルを選んでください。</translation>
    </message>
    <message>
        <source>Choose an EAGLE-1, EAGLE-2, EAGLE-3 or Medusa head.</source>
        <translation>EAGLE-1、EAGLE-2、EAGLE-3、Medusa のいずれかのヘッドを選んでください。</translation>
    </message>
    <message>
        <source>Choose an EAGLE-3 head.</source>
        <translation>EAGLE-3 のヘッドを選んでください。</translation>
    </message>
    <message>
        <source>Choose an instruction-tuned model (its name often ends in -it, -Instruct or -Chat).</source>
        <translation>指示チューニング済みのモデルを選んでください (名前が -it、-Instruct、-Chat で終わることが多いです)。</translation>
    </message>
    <message>
        <source>Choose another file of this model, for example Q4_K_M or Q8_0.</source>
        <translation>このモデルの別のファイルを選んでください。たとえば Q4_K_M や Q8_0。</translation>
    </message>
    <message>
        <source>Choose another file of this model, or its safetensors version.</source>
        <translation>このモデルの別のファイルか、safetensors 版を選んでください。</translation>
    </message>
    <message>
        <source>Choose another folder.</source>
        <translation>別のフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>Choose another head.</source>
        <translation>別のヘッドを選んでください。</translation>
    </message>
    <message>
        <source>Choose another head: this variant is not supported.</source>
        <translation>別のヘッドを選んでください。この種類には対応していません。</translation>
    </message>
    <message>
        <source>Choose another model or download it again.</source>
        <translation>別のモデルを選ぶか、ダウンロードし直してください。</translation>
    </message>
    <message>
        <source>Choose another model.</source>
        <translation>別のモデルを選んでください。</translation>
    </message>
    <message>
        <source>Choose another model: Llama, Mistral, Qwen, Gemma, Phi or Mixtral work with EAGLE.</source>
        <translation>別のモデルを選んでください。EAGLE が使えるのは Llama、Mistral、Qwen、Gemma、Phi、Mixtral です。</translation>
    </message>
    <message>
        <source>Choose another one to draft with.</source>
        <translation>ドラフト用に別のモデルを選んでください。</translation>
    </message>
    <message>
        <source>Choose another repository.</source>
        <translation>別のリポジトリを選んでください。</translation>
    </message>
    <message>
        <source>Choose another version of this model, for example the unquantised one.</source>
        <translation>このモデルの別の版を選んでください。たとえば量子化していないもの。</translation>
    </message>
    <message>
        <source>Choose cpu or cuda.</source>
        <translation>cpu か cuda を選んでください。</translation>
    </message>
    <message>
        <source>Choose cuda:0 or cpu.</source>
        <translation>cuda:0 か cpu を選んでください。</translation>
    </message>
    <message>
        <source>Choose heads of version 0.1, which belong to an unchanged model.</source>
        <translation>変更のないモデルに付くバージョン 0.1 のヘッドを選んでください。</translation>
    </message>
    <message>
        <source>Choose it again.</source>
        <translation>もう一度選んでください。</translation>
    </message>
    <message>
        <source>Choose nf4 for this GPU.</source>
        <translation>この GPU には nf4 を選んでください。</translation>
    </message>
    <message>
        <source>Choose one of them, for example {0}.</source>
        <translation>その一つを選んでください。たとえば {0}。</translation>
    </message>
    <message>
        <source>Choose one of {0}.</source>
        <translation>次のいずれかを選んでください: {0}。</translation>
    </message>
    <message>
        <source>Choose the folder again.</source>
        <translation>フォルダーをもう一度選んでください。</translation>
    </message>
    <message>
        <source>Choose the folder that holds config.json.</source>
        <translation>config.json のあるフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>Choose the head in 16 bits; Eyrie quantises it itself.</source>
        <translation>16 ビットのヘッドを選んでください。量子化は Eyrie が行います。</translation>
    </message>
    <message>
        <source>Choose the safetensors version of this model.</source>
        <translation>このモデルの safetensors 版を選んでください。</translation>
    </message>
    <message>
        <source>Close other programs or choose a smaller model.</source>
        <translation>ほかのプログラムを閉じるか、小さなモデルを選んでください。</translation>
    </message>
    <message>
        <source>Close what uses it and check the permissions of the cache, or delete the folder {0} yourself.</source>
        <translation>使用中のプログラムを閉じてキャッシュのアクセス権を確認するか、フォルダー {0} を自分で削除してください。</translation>
    </message>
    <message>
        <source>Compare a shorter reply.</source>
        <translation>短い応答で比較してください。</translation>
    </message>
    <message>
        <source>Compare with the same model again.</source>
        <translation>同じモデルでもう一度比較してください。</translation>
    </message>
    <message>
        <source>Confidence threshold</source>
        <translation>確信度のしきい値</translation>
    </message>
    <message>
        <source>Converting the tokenizer</source>
        <translation>トークナイザーを変換しています</translation>
    </message>
    <message>
        <source>Converting the weights</source>
        <translation>重みを変換しています</translation>
    </message>
    <message>
        <source>Correct the file, or delete it.</source>
        <translation>ファイルを直すか、削除してください。</translation>
    </message>
    <message>
        <source>Delete that folder and load again.</source>
        <translation>そのフォルダーを削除して、読み込み直してください。</translation>
    </message>
    <message>
        <source>Delete the file and download it again.</source>
        <translation>ファイルを削除して、ダウンロードし直してください。</translation>
    </message>
    <message>
        <source>Delete the model and download it again.</source>
        <translation>モデルを削除して、ダウンロードし直してください。</translation>
    </message>
    <message>
        <source>Delete the model and download it again; if it stays, the model itself is damaged.</source>
        <translation>モデルを削除して、ダウンロードし直してください。それでも続くなら、モデル自体が壊れています。</translation>
    </message>
    <message>
        <source>Delete this file and download it again.</source>
        <translation>このファイルを削除して、ダウンロードし直してください。</translation>
    </message>
    <message>
        <source>Depth</source>
        <translation>深さ</translation>
    </message>
    <message>
        <source>Do not use this file: it may carry a program. Look for a head in safetensors format.</source>
        <translation>このファイルは使わないでください。プログラムが含まれている可能性があります。safetensors 形式のヘッドを探してください。</translation>
    </message>
    <message>
        <source>Do not use this file; choose a version of the model in the safetensors format.</source>
        <translation>このファイルは使わず、safetensors 形式のモデルを選んでください。</translation>
    </message>
    <message>
        <source>Do not use this model.</source>
        <translation>このモデルは使わないでください。</translation>
    </message>
    <message>
        <source>Download the file first.</source>
        <translation>先にファイルをダウンロードしてください。</translation>
    </message>
    <message>
        <source>Download the head again or choose another.</source>
        <translation>ヘッドをダウンロードし直すか、別のものを選んでください。</translation>
    </message>
    <message>
        <source>Download the head again, or choose one whose config.json belongs to its weights.</source>
        <translation>ヘッドをダウンロードし直すか、config.json が重みに合うものを選んでください。</translation>
    </message>
    <message>
        <source>Download the head again.</source>
        <translation>ヘッドをダウンロードし直してください。</translation>
    </message>
    <message>
        <source>Download the model again.</source>
        <translation>モデルをダウンロードし直してください。</translation>
    </message>
    <message>
        <source>Downloads keep what has arrived and go on once it is asked something again.</source>
        <translation>ダウンロードは届いた分を保持し、次に何か尋ねられると再開します。</translation>
    </message>
    <message>
        <source>Draft model</source>
        <translation>ドラフトモデル</translation>
    </message>
    <message>
        <source>Drafting pauses, because it loses.</source>
        <translation>遅くなるため、ドラフトを休止しています。</translation>
    </message>
    <message>
        <source>Draw the guesses</source>
        <translation>推測を抽選する</translation>
    </message>
    <message>
        <source>EAGLE was not asked for.</source>
        <translation>EAGLE は要求されていません。</translation>
    </message>
    <message>
        <source>EAGLE works with {0}.</source>
        <translation>EAGLE は {0} で使えます。</translation>
    </message>
    <message>
        <source>EAGLE-1</source>
        <translation>EAGLE-1</translation>
    </message>
    <message>
        <source>EAGLE-2 paper, table 1 (mean of 6 tasks, greedy, with the dynamic tree)</source>
        <translation>EAGLE-2 論文、表 1 (6 課題の平均、貪欲、動的ツリー)</translation>
    </message>
    <message>
        <source>EAGLE-3 paper, table 1 (mean of 5 tasks, greedy, one GPU, against plain transformers)</source>
        <translation>EAGLE-3 論文、表 1 (5 課題の平均、貪欲、GPU 1 基、通常の transformers との比較)</translation>
    </message>
    <message>
        <source>EAGLE-3 paper, table 1, row EAGLE-2 (mean of 5 tasks, greedy)</source>
        <translation>EAGLE-3 論文、表 1、EAGLE-2 の行 (5 課題の平均、貪欲)</translation>
    </message>
    <message>
        <source>Enter another token, or run “hf auth login” again.</source>
        <translation>別のトークンを入力するか、「hf auth login」をもう一度実行してください。</translation>
    </message>
    <message>
        <source>Explain in a few sentences why the sky is blue.</source>
        <translation>空が青い理由を数文で説明してください。</translation>
    </message>
    <message>
        <source>Eyrie ended while this reply was written.</source>
        <translation>この応答を書いている間に Eyrie が終了しました。</translation>
    </message>
    <message>
        <source>Five heads with an output table each.</source>
        <translation>それぞれ出力表を持つ五つのヘッド。</translation>
    </message>
    <message>
        <source>Free some space, or set EYRIE_DATA_DIR to a folder on another disk.</source>
        <translation>空きを作るか、EYRIE_DATA_DIR を別のディスクのフォルダーに設定してください。</translation>
    </message>
    <message>
        <source>Free some space, then resume the download, or choose a cache folder on another disk with HF_HUB_CACHE.</source>
        <translation>空きを作ってからダウンロードを再開するか、HF_HUB_CACHE で別のディスクのキャッシュフォルダーを選んでください。</translation>
    </message>
    <message>
        <source>Free some space, then resume the download.</source>
        <translation>空きを作ってから、ダウンロードを再開してください。</translation>
    </message>
    <message>
        <source>Free space or change its permissions, or set {0} to a folder that can be written.</source>
        <translation>空きを作るか権限を変えるか、{0} を書き込めるフォルダーに設定してください。</translation>
    </message>
    <message>
        <source>From {0} steps: {1} tokens in {2} ms a step, {3}× plain decoding.</source>
        <translation>{0} ステップから: 1 ステップ {2} ミリ秒で {1} トークン、通常デコードの {3} 倍。</translation>
    </message>
    <message>
        <source>Future positions that each pass fills.</source>
        <translation>各パスで埋める先の位置の数。</translation>
    </message>
    <message>
        <source>Guesses</source>
        <translation>推測</translation>
    </message>
    <message>
        <source>Guesses after each guess: 1 makes a chain, more a tree.</source>
        <translation>推測ごとに続く推測の数。1 なら鎖、それ以上ならツリーになります。</translation>
    </message>
    <message>
        <source>Guesses that the text goes on as it did when its last words stood here before. Needs no second model, and helps where a reply repeats its prompt.</source>
        <translation>テキストの末尾の語が以前に現れた箇所と同じように続くと推測します。別のモデルは不要で、応答がプロンプトを繰り返す場面で役立ちます。</translation>
    </message>
    <message>
        <source>HF_ENDPOINT is “{0}”, which is no address of a hub.</source>
        <translation>HF_ENDPOINT は「{0}」ですが、ハブのアドレスではありません。</translation>
    </message>
    <message>
        <source>How many different continuations are tried at once, the newest first.</source>
        <translation>異なる続きを同時にいくつ試すか。新しいものから試します。</translation>
    </message>
    <message>
        <source>In the token's settings, tick “Read access to contents of all public gated repos you can access”, or use another token.</source>
        <translation>トークンの設定で “Read access to contents of all public gated repos you can access” にチェックを入れるか、別のトークンを使ってください。</translation>
    </message>
    <message>
        <source>Install or update the NVIDIA driver, or choose the device cpu.</source>
        <translation>NVIDIA ドライバーを導入または更新するか、デバイス cpu を選んでください。</translation>
    </message>
    <message>
        <source>It could not be checked whether this head fits.</source>
        <translation>このヘッドが合うかどうかを確認できませんでした。</translation>
    </message>
    <message>
        <source>It does not say which layers it taps, and the usual ones do not exist in {0} layers.</source>
        <translation>どの層を読むかが書かれておらず、{0} 層では通常の層がありません。</translation>
    </message>
    <message>
        <source>It has none at all.</source>
        <translation>設定は一つもありません。</translation>
    </message>
    <message>
        <source>It must be a number.</source>
        <translation>数でなければなりません。</translation>
    </message>
    <message>
        <source>It must be a text.</source>
        <translation>テキストでなければなりません。</translation>
    </message>
    <message>
        <source>It must be a whole number.</source>
        <translation>整数でなければなりません。</translation>
    </message>
    <message>
        <source>It must be between {0} and {1}.</source>
        <translation>{0} から {1} の間でなければなりません。</translation>
    </message>
    <message>
        <source>It must be on or off.</source>
        <translation>オンかオフでなければなりません。</translation>
    </message>
    <message>
        <source>It must be one of {0}.</source>
        <translation>次のいずれかでなければなりません: {0}。</translation>
    </message>
    <message>
        <source>It must be {0}.</source>
        <translation>{0} でなければなりません。</translation>
    </message>
    <message>
        <source>It needs Medusa heads. Choose some that were made for this model.</source>
        <translation>Medusa ヘッドが必要です。このモデル用のものを選んでください。</translation>
    </message>
    <message>
        <source>It needs a smaller model with the same vocabulary to draft with.</source>
        <translation>ドラフト用に、同じ語彙を持つ小さなモデルが必要です。</translation>
    </message>
    <message>
        <source>It needs an EAGLE head. Choose one for this model.</source>
        <translation>EAGLE ヘッドが必要です。このモデル用のものを選んでください。</translation>
    </message>
    <message>
        <source>It needs embeddings of width {0}, this model's have {1}, and it brings none.</source>
        <translation>幅 {0} の埋め込みが必要ですが、このモデルの幅は {1} で、ヘッドには付属していません。</translation>
    </message>
    <message>
        <source>It runs plainly, through transformers.</source>
        <translation>transformers を通して通常どおり動きます。</translation>
    </message>
    <message>
        <source>It taps layer {0}, the model has {1} layers.</source>
        <translation>層 {0} を読みますが、モデルは {1} 層です。</translation>
    </message>
    <message>
        <source>It was damaged before it was put there: choose another repository or revision.</source>
        <translation>そこに置かれる前から壊れていました。別のリポジトリかリビジョンを選んでください。</translation>
    </message>
    <message>
        <source>It was made for a vocabulary of {0} tokens, this model has {1}.</source>
        <translation>{0} トークンの語彙用ですが、このモデルの語彙は {1} トークンです。</translation>
    </message>
    <message>
        <source>It was made for hidden size {0}, this model has {1}.</source>
        <translation>隠れ状態の幅 {0} 用ですが、このモデルの幅は {1} です。</translation>
    </message>
    <message>
        <source>It was made for {0}.</source>
        <translation>{0} 用に作られています。</translation>
    </message>
    <message>
        <source>Its configuration names the outputs of layers 1, 11 and 21.</source>
        <translation>設定では層 1、11、21 の出力が指定されています。</translation>
    </message>
    <message>
        <source>Its features are normed before the residual sum; its own configuration says so.</source>
        <translation>残差の和の前に特徴を正規化します。自身の設定にそう書かれています。</translation>
    </message>
    <message>
        <source>Its files cannot be understood ({0}).</source>
        <translation>ファイルを解釈できません ({0})。</translation>
    </message>
    <message>
        <source>Its fusion layer has no bias.</source>
        <translation>融合層にバイアスがありません。</translation>
    </message>
    <message>
        <source>Its size is not known.</source>
        <translation>サイズがわかりません。</translation>
    </message>
    <message>
        <source>Keys and values take half a megabyte a token: no grouped queries.</source>
        <translation>グループ化クエリーがなく、キーと値が 1 トークンあたり 0.5 メガバイトを使います。</translation>
    </message>
    <message>
        <source>Leave out --quant.</source>
        <translation>--quant を省いてください。</translation>
    </message>
    <message>
        <source>Length of the n-grams that are collected and tried; the window is one less deep.</source>
        <translation>集めて試す n-gram の長さ。ウィンドウの深さはこれより 1 小さくなります。</translation>
    </message>
    <message>
        <source>Let the download finish or cancel it, then delete the model.</source>
        <translation>ダウンロードを完了させるか中止してから、モデルを削除してください。</translation>
    </message>
    <message>
        <source>Levels of guesses below the root.</source>
        <translation>ルートより下の推測の段数。</translation>
    </message>
    <message>
        <source>Load a model first.</source>
        <translation>先にモデルを読み込んでください。</translation>
    </message>
    <message>
        <source>Load the model again to start over.</source>
        <translation>モデルを読み込み直すと、最初からやり直します。</translation>
    </message>
    <message>
        <source>Loading the EAGLE head</source>
        <translation>EAGLE ヘッドを読み込んでいます</translation>
    </message>
    <message>
        <source>Loading the draft model</source>
        <translation>ドラフトモデルを読み込んでいます</translation>
    </message>
    <message>
        <source>Loading the model</source>
        <translation>モデルを読み込んでいます</translation>
    </message>
    <message>
        <source>Loading the weights</source>
        <translation>重みを読み込んでいます</translation>
    </message>
    <message>
        <source>Loading {0} through transformers</source>
        <translation>{0} を transformers 経由で読み込んでいます</translation>
    </message>
    <message>
        <source>Longest match</source>
        <translation>最長の一致</translation>
    </message>
    <message>
        <source>Look at the list of its files.</source>
        <translation>ファイルの一覧を確認してください。</translation>
    </message>
    <message>
        <source>Lookahead</source>
        <translation>先読み (Lookahead)</translation>
    </message>
    <message>
        <source>Lossless: what the model would have said. Typical: also what it finds likely enough; faster, but the replies are no longer the model's own.</source>
        <translation>無損失 (lossless): モデルが書いたはずの内容。典型 (typical): モデルが十分にありそうと見る内容も認めます。速くなりますが、応答はモデル自身のものではなくなります。</translation>
    </message>
    <message>
        <source>Matches of fewer tokens are not used.</source>
        <translation>これより短い一致は使いません。</translation>
    </message>
    <message>
        <source>Measuring how to read the EAGLE head</source>
        <translation>EAGLE ヘッドの読み方を測定しています</translation>
    </message>
    <message>
        <source>Measuring this machine</source>
        <translation>このマシンを測定しています</translation>
    </message>
    <message>
        <source>Medusa</source>
        <translation>Medusa</translation>
    </message>
    <message>
        <source>Medusa heads do not say their size in their config.</source>
        <translation>Medusa ヘッドは、設定に大きさを記していません。</translation>
    </message>
    <message>
        <source>N-gram</source>
        <translation>n-gram</translation>
    </message>
    <message>
        <source>N-grams tried in one pass.</source>
        <translation>1 パスで試す n-gram の数。</translation>
    </message>
    <message>
        <source>Name five fruits and a use of each.</source>
        <translation>果物を五つ挙げ、それぞれの使い道を一つ書いてください。</translation>
    </message>
    <message>
        <source>Name {0}, or write paths of ranks such as [[0], [1], [0, 0]].</source>
        <translation>{0} を指定するか、[[0], [1], [0, 0]] のような順位の道筋を書いてください。</translation>
    </message>
    <message>
        <source>Names look like owner/model.</source>
        <translation>名前は owner/model の形です。</translation>
    </message>
    <message>
        <source>Needs bfloat16. Trained on English; users measured an acceptance length of only 2.14.</source>
        <translation>bfloat16 が必要です。英語で学習。利用者が測定した受理長は 2.14 にとどまります。</translation>
    </message>
    <message>
        <source>Needs {0}{1} GB; {2} GB of {3} can be used.</source>
        <translation>{0}{1} GB 必要です。{3} のうち {2} GB が使えます。</translation>
    </message>
    <message>
        <source>Needs {0}{1} of {2} GB that can be used; {3} GB stay free.</source>
        <translation>使える {2} GB のうち {0}{1} GB が必要です。{3} GB が残ります。</translation>
    </message>
    <message>
        <source>No EAGLE head was chosen for this model. Choose one to switch EAGLE on.</source>
        <translation>このモデルの EAGLE ヘッドが選ばれていません。EAGLE をオンにするには選んでください。</translation>
    </message>
    <message>
        <source>No model is loaded.</source>
        <translation>モデルが読み込まれていません。</translation>
    </message>
    <message>
        <source>Nodes</source>
        <translation>ノード</translation>
    </message>
    <message>
        <source>Not by EAGLE's authors.</source>
        <translation>EAGLE の作者によるものではありません。</translation>
    </message>
    <message>
        <source>Nothing is adapted. The sizes to begin with: {0}.</source>
        <translation>何も調整しません。開始時の大きさ: {0}。</translation>
    </message>
    <message>
        <source>Only http:// and https:// proxies are understood.</source>
        <translation>使えるプロキシは http:// と https:// だけです。</translation>
    </message>
    <message>
        <source>Packing the weights</source>
        <translation>重みを詰めています</translation>
    </message>
    <message>
        <source>Plain decoding</source>
        <translation>通常デコード</translation>
    </message>
    <message>
        <source>Preparing the model was stopped.</source>
        <translation>モデルの準備を停止しました。</translation>
    </message>
    <message>
        <source>Prompt lookup</source>
        <translation>プロンプト照合 (Prompt lookup)</translation>
    </message>
    <message>
        <source>Put all its parts into the same folder, then choose it again.</source>
        <translation>すべての部分を同じフォルダーに置いて、もう一度選んでください。</translation>
    </message>
    <message>
        <source>Quantising the weights (once)</source>
        <translation>重みを量子化しています (初回のみ)</translation>
    </message>
    <message>
        <source>Reading the tokenizer</source>
        <translation>トークナイザーを読み込んでいます</translation>
    </message>
    <message>
        <source>Reading the weights</source>
        <translation>重みを読み取っています</translation>
    </message>
    <message>
        <source>Refresh the list.</source>
        <translation>一覧を更新してください。</translation>
    </message>
    <message>
        <source>Restart the engine and write the reply again.</source>
        <translation>エンジンを再起動し、応答を書き直してください。</translation>
    </message>
    <message>
        <source>Resume the download to fetch it anew, or cancel it.</source>
        <translation>ダウンロードを再開して取得し直すか、中止してください。</translation>
    </message>
    <message>
        <source>Row-wise int8 is a format for CPUs.</source>
        <translation>行ごとの int8 は CPU 用の形式です。</translation>
    </message>
    <message>
        <source>Rows verified in one pass of the target, root included.</source>
        <translation>ターゲットモデルの 1 パスで検証する行数。ルートを含みます。</translation>
    </message>
    <message>
        <source>Run Eyrie's set-up again on a machine with an NVIDIA GPU, or choose the device cpu.</source>
        <translation>NVIDIA GPU のあるマシンで Eyrie のセットアップをやり直すか、デバイス cpu を選んでください。</translation>
    </message>
    <message>
        <source>Run `git lfs pull` in that folder, or download the model in Eyrie.</source>
        <translation>そのフォルダーで `git lfs pull` を実行するか、Eyrie でモデルをダウンロードしてください。</translation>
    </message>
    <message>
        <source>Run `python packaging/bootstrap.py --repair` in the folder of Eyrie to install it again.</source>
        <translation>Eyrie のフォルダーで `python packaging/bootstrap.py --repair` を実行して、入れ直してください。</translation>
    </message>
    <message>
        <source>Run `python packaging/bootstrap.py` in the folder of Eyrie to install it.</source>
        <translation>Eyrie のフォルダーで `python packaging/bootstrap.py` を実行して、導入してください。</translation>
    </message>
    <message>
        <source>Scales the threshold down where the model is unsure, under typical acceptance.</source>
        <translation>典型受理で、モデルの確信が低い所ではしきい値を下げます。</translation>
    </message>
    <message>
        <source>Set it to one such as https://huggingface.co, or unset it; then start Eyrie again.</source>
        <translation>https://huggingface.co のようなアドレスに設定するか、設定を解除してから Eyrie を起動し直してください。</translation>
    </message>
    <message>
        <source>Several heads guess the next positions all at once; a fixed tree combines their likeliest tokens.</source>
        <translation>複数のヘッドが次の位置を同時に推測し、固定ツリーが最も確率の高いトークンを組み合わせます。</translation>
    </message>
    <message>
        <source>Shorten the message, or start a new chat.</source>
        <translation>メッセージを短くするか、新しいチャットを始めてください。</translation>
    </message>
    <message>
        <source>Shortest match</source>
        <translation>最短の一致</translation>
    </message>
    <message>
        <source>Small and free; the best pair to begin with.</source>
        <translation>小さくて自由。始めるのに最適な組です。</translation>
    </message>
    <message>
        <source>Spec-Bench, A100 (overall, batch 1, greedy, 16 bits)</source>
        <translation>Spec-Bench、A100 (全体、バッチ 1、貪欲、16 ビット)</translation>
    </message>
    <message>
        <source>Spec-Bench, A100, with the dynamic tree of EAGLE-2 (overall, batch 1, greedy, 16 bits)</source>
        <translation>Spec-Bench、A100、EAGLE-2 の動的ツリー (全体、バッチ 1、貪欲、16 ビット)</translation>
    </message>
    <message>
        <source>Spec-Bench, RTX 3090 (overall, batch 1, greedy, 16 bits)</source>
        <translation>Spec-Bench、RTX 3090 (全体、バッチ 1、貪欲、16 ビット)</translation>
    </message>
    <message>
        <source>Spec-Bench, RTX 3090, with the dynamic tree of EAGLE-2 (overall, batch 1, greedy, 16 bits)</source>
        <translation>Spec-Bench、RTX 3090、EAGLE-2 の動的ツリー (全体、バッチ 1、貪欲、16 ビット)</translation>
    </message>
    <message>
        <source>SpecBundle, MT-bench at batch 1 with a chain of 3, 190 to 404 tokens/s</source>
        <translation>SpecBundle、MT-bench、バッチ 1、長さ 3 の鎖、190～404 トークン/秒</translation>
    </message>
    <message>
        <source>Start a new chat or shorten the messages.</source>
        <translation>新しいチャットを始めるか、メッセージを短くしてください。</translation>
    </message>
    <message>
        <source>Start a new chat, or take the system prompt out. If it happens again, use another model.</source>
        <translation>新しいチャットを始めるか、システムプロンプトを外してください。繰り返す場合は、別のモデルを使ってください。</translation>
    </message>
    <message>
        <source>The architecture “{0}” is not one that EAGLE runs on here.</source>
        <translation>アーキテクチャ「{0}」では、ここでは EAGLE が動きません。</translation>
    </message>
    <message>
        <source>The best of the three on mathematics and code.</source>
        <translation>三つの中で数学とコードに最も優れています。</translation>
    </message>
    <message>
        <source>The cache does not hold {0} at {1}.</source>
        <translation>キャッシュに {1} 時点の {0} がありません。</translation>
    </message>
    <message>
        <source>The catalogue lists it for this model; its files have not been looked at yet.</source>
        <translation>カタログではこのモデル用とされています。ファイルはまだ調べていません。</translation>
    </message>
    <message>
        <source>The chat template of {0} does not accept this conversation: {1}</source>
        <translation>{0} のチャットテンプレートがこの会話を受け付けません: {1}</translation>
    </message>
    <message>
        <source>The chat template of {0} is broken (line {1}: {2}).</source>
        <translation>{0} のチャットテンプレートが壊れています ({1} 行目: {2})。</translation>
    </message>
    <message>
        <source>The context of {0} tokens is full.</source>
        <translation>{0} トークンのコンテキストが満杯です。</translation>
    </message>
    <message>
        <source>The device “{0}” is not supported.</source>
        <translation>デバイス「{0}」には対応していません。</translation>
    </message>
    <message>
        <source>The disk is too full: {0} must be free for {1}.</source>
        <translation>ディスクの空きが足りません。{1} には {0} の空きが必要です。</translation>
    </message>
    <message>
        <source>The disk with {0} is full.</source>
        <translation>{0} のあるディスクがいっぱいです。</translation>
    </message>
    <message>
        <source>The download failed: {0}: {1}.</source>
        <translation>ダウンロードに失敗しました: {0}: {1}。</translation>
    </message>
    <message>
        <source>The draft model cannot be used.</source>
        <translation>ドラフトモデルを使えません。</translation>
    </message>
    <message>
        <source>The draft vocabulary has not been verified.</source>
        <translation>ドラフト語彙は検証されていません。</translation>
    </message>
    <message>
        <source>The engine failed: {0}: {1}.</source>
        <translation>エンジンが失敗しました: {0}: {1}。</translation>
    </message>
    <message>
        <source>The engine stopped before it got the prompt.</source>
        <translation>プロンプトを受け取る前にエンジンが停止しました。</translation>
    </message>
    <message>
        <source>The file counts {0} Medusa heads of {1} blocks, more than make sense.</source>
        <translation>ファイルの Medusa ヘッドは {1} ブロックが {0} 個で、多すぎます。</translation>
    </message>
    <message>
        <source>The file holds no whole Medusa head.</source>
        <translation>ファイルに完全な Medusa ヘッドがありません。</translation>
    </message>
    <message>
        <source>The files are incomplete or of another kind of model. {0}</source>
        <translation>ファイルが不完全か、別の種類のモデルです。{0}</translation>
    </message>
    <message>
        <source>The files do not belong together, or the architecture is another: choose another model.</source>
        <translation>ファイルどうしが合わないか、アーキテクチャが異なります。別のモデルを選んでください。</translation>
    </message>
    <message>
        <source>The files do not belong together: delete the model and download it again.</source>
        <translation>ファイルどうしが合いません。モデルを削除して、ダウンロードし直してください。</translation>
    </message>
    <message>
        <source>The folder {0} cannot be made ({1}).</source>
        <translation>フォルダー {0} を作れません ({1})。</translation>
    </message>
    <message>
        <source>The head has biases in its MLP, which no known format has.</source>
        <translation>ヘッドの MLP にバイアスがあり、既知のどの形式とも異なります。</translation>
    </message>
    <message>
        <source>The head is quantised.</source>
        <translation>ヘッドが量子化されています。</translation>
    </message>
    <message>
        <source>The head uses {0} where silu is known.</source>
        <translation>ヘッドは {0} を使いますが、対応しているのは silu です。</translation>
    </message>
    <message>
        <source>The head was made for {0}, which has the same shape; with another model it drafts worse.</source>
        <translation>ヘッドは同じ形の {0} 用に作られています。別のモデルではドラフトの質が落ちます。</translation>
    </message>
    <message>
        <source>The head was trained on Chinese.</source>
        <translation>ヘッドは中国語で学習しています。</translation>
    </message>
    <message>
        <source>The head was trained on replies with thinking, which this model does not do: it drafts less well.</source>
        <translation>ヘッドは思考つきの応答で学習していますが、このモデルは思考しないため、ドラフトの質が落ちます。</translation>
    </message>
    <message>
        <source>The head was trained on replies with thinking: leave thinking on, or it drafts less well.</source>
        <translation>ヘッドは思考つきの応答で学習しています。思考をオンにしておかないと、ドラフトの質が落ちます。</translation>
    </message>
    <message>
        <source>The head was trained on replies with thinking; where thinking is off it drafts less well.</source>
        <translation>ヘッドは思考つきの応答で学習しています。思考がオフだとドラフトの質が落ちます。</translation>
    </message>
    <message>
        <source>The head was trained on replies without thinking, and this model always thinks: it drafts less well.</source>
        <translation>ヘッドは思考なしの応答で学習していますが、このモデルは常に思考するため、ドラフトの質が落ちます。</translation>
    </message>
    <message>
        <source>The head was trained on replies without thinking: switch thinking off, or it drafts less well.</source>
        <translation>ヘッドは思考なしの応答で学習しています。思考をオフにしないと、ドラフトの質が落ちます。</translation>
    </message>
    <message>
        <source>The head was trained on texts of up to {0} tokens; in longer chats it drafts less well.</source>
        <translation>ヘッドは {0} トークンまでのテキストで学習しています。長いチャットではドラフトの質が落ちます。</translation>
    </message>
    <message>
        <source>The head's config.json makes no sense: {0} is {1}.</source>
        <translation>ヘッドの config.json が正しくありません: {0} は {1} です。</translation>
    </message>
    <message>
        <source>The head's config.json makes no sense: {0}.</source>
        <translation>ヘッドの config.json が正しくありません: {0}。</translation>
    </message>
    <message>
        <source>The head's files leave open how to read it. Measured on the model's own replies: {0} ({1} tokens a step, otherwise {2}).</source>
        <translation>ヘッドのファイルからは読み方が決まりません。モデル自身の応答で測定した結果: {0} (1 ステップ {1} トークン、ほかは {2})。</translation>
    </message>
    <message>
        <source>The head's folder {0} does not exist.</source>
        <translation>ヘッドのフォルダー {0} がありません。</translation>
    </message>
    <message>
        <source>The header of the head's file is damaged.</source>
        <translation>ヘッドのファイルのヘッダーが壊れています。</translation>
    </message>
    <message>
        <source>The header of {0} is damaged (a gap or overlap at byte {1}).</source>
        <translation>{0} のヘッダーが壊れています ({1} バイト目にすき間または重なり)。</translation>
    </message>
    <message>
        <source>The header of {0} is damaged ({1}).</source>
        <translation>{0} のヘッダーが壊れています ({1})。</translation>
    </message>
    <message>
        <source>The hub at {0} cannot be reached ({1}).</source>
        <translation>ハブ {0} に接続できません ({1})。</translation>
    </message>
    <message>
        <source>The hub cannot be reached, because {0}.</source>
        <translation>ハブに接続できません。理由: {0}。</translation>
    </message>
    <message>
        <source>The hub describes {0} in a way that cannot be used.</source>
        <translation>ハブの {0} の記述は使えない形です。</translation>
    </message>
    <message>
        <source>The hub does not accept the token: it is wrong, or it has expired or been revoked.</source>
        <translation>ハブがトークンを受け付けません。誤っているか、期限切れか、取り消されています。</translation>
    </message>
    <message>
        <source>The hub has no such {0}: {1}.</source>
        <translation>ハブにその {0} はありません: {1}。</translation>
    </message>
    <message>
        <source>The hub is busy (status {0}).</source>
        <translation>ハブが混み合っています (ステータス {0})。</translation>
    </message>
    <message>
        <source>The hub is not asked, because HF_HUB_OFFLINE is set.</source>
        <translation>HF_HUB_OFFLINE が設定されているため、ハブに問い合わせません。</translation>
    </message>
    <message>
        <source>The hub refuses access to {0}.</source>
        <translation>ハブが {0} へのアクセスを拒否しました。</translation>
    </message>
    <message>
        <source>The hub refuses the request for {0} (status {1}).</source>
        <translation>ハブが {0} の要求を拒否しました (ステータス {1})。</translation>
    </message>
    <message>
        <source>The hub sends the download to an address that is not encrypted.</source>
        <translation>ハブがダウンロードを暗号化されていないアドレスに転送しています。</translation>
    </message>
    <message>
        <source>The installed torch is the version for CPUs.</source>
        <translation>導入されている torch は CPU 版です。</translation>
    </message>
    <message>
        <source>The length of n-grams not to repeat is {0}.</source>
        <translation>繰り返しを禁じる n-gram の長さが {0} です。</translation>
    </message>
    <message>
        <source>The loaded head is for {0}. Choose an {1} head for this model.</source>
        <translation>読み込まれたヘッドは {0} 用です。このモデル用の {1} ヘッドを選んでください。</translation>
    </message>
    <message>
        <source>The machine was busy with something else meanwhile: this is measured again next time.</source>
        <translation>測定中にコンピューターがほかの処理をしていたため、次回あらためて測定します。</translation>
    </message>
    <message>
        <source>The margin was asked of a token that the model does not have.</source>
        <translation>モデルにないトークンの差が求められました。</translation>
    </message>
    <message>
        <source>The model alone, one token at a time: what every other method is measured against.</source>
        <translation>モデルだけで 1 トークンずつ。ほかの方式はすべてこれを基準に測ります。</translation>
    </message>
    <message>
        <source>The model fills a window of future positions beside its own next token and keeps the n-grams that come up. Needs no second model, but many rows a pass.</source>
        <translation>モデルが次のトークンと並行して先の位置のウィンドウを埋め、現れた n-gram を取っておきます。別のモデルは不要ですが、1 パスの行数は多くなります。</translation>
    </message>
    <message>
        <source>The model has the tensor {0}{1}, which its config.json does not explain.</source>
        <translation>モデルにテンソル {0}{1} がありますが、config.json からは説明できません。</translation>
    </message>
    <message>
        <source>The model in {0} lacks the tensor {1}.</source>
        <translation>{0} のモデルにテンソル {1} がありません。</translation>
    </message>
    <message>
        <source>The model is a mixture of experts, where drafting gains little.</source>
        <translation>専門家混合モデルのため、ドラフトの効果はわずかです。</translation>
    </message>
    <message>
        <source>The model is ready</source>
        <translation>モデルの準備ができました</translation>
    </message>
    <message>
        <source>The model lacks the tensor {0}.</source>
        <translation>モデルにテンソル {0} がありません。</translation>
    </message>
    <message>
        <source>The model runs without EAGLE.</source>
        <translation>モデルは EAGLE なしで動きます。</translation>
    </message>
    <message>
        <source>The model that is loaded now is unloaded first.</source>
        <translation>今読み込まれているモデルは、先に解放されます。</translation>
    </message>
    <message>
        <source>The model's {0} is not supported.</source>
        <translation>モデルの {0} には対応していません。</translation>
    </message>
    <message>
        <source>The most tokens at the end of the text that are looked for earlier in it.</source>
        <translation>テキストの末尾から、前方で探すトークンの最大数。</translation>
    </message>
    <message>
        <source>The official head with the paper's best numbers (5.51 there).</source>
        <translation>論文で最良の数値 (5.51) の公式ヘッド。</translation>
    </message>
    <message>
        <source>The official head, for a model that thinks before it answers.</source>
        <translation>答える前に考えるモデル用の公式ヘッド。</translation>
    </message>
    <message>
        <source>The official head; trained on texts of up to 2,048 tokens.</source>
        <translation>公式ヘッド。2,048 トークンまでのテキストで学習。</translation>
    </message>
    <message>
        <source>The package {0} with the demo model is not installed ({1} is missing).</source>
        <translation>デモモデルのパッケージ {0} が導入されていません ({1} がありません)。</translation>
    </message>
    <message>
        <source>The part of Eyrie that talks to the hub stopped unexpectedly.</source>
        <translation>ハブと通信する Eyrie の部分が予期せず停止しました。</translation>
    </message>
    <message>
        <source>The place is at token {0}, the context holds {1}.</source>
        <translation>その位置はトークン {0} ですが、コンテキストは {1} までです。</translation>
    </message>
    <message>
        <source>The prompt has {0} tokens, the context holds {1}.</source>
        <translation>プロンプトは {0} トークンですが、コンテキストは {1} までです。</translation>
    </message>
    <message>
        <source>The prompt is empty.</source>
        <translation>プロンプトが空です。</translation>
    </message>
    <message>
        <source>The proxy {0} asks for a name and a password, or does not accept those it was given.</source>
        <translation>プロキシ {0} が名前とパスワードを求めているか、渡されたものを受け付けません。</translation>
    </message>
    <message>
        <source>The proxy {0} cannot be used: its address is wrong, or it is a SOCKS proxy.</source>
        <translation>プロキシ {0} は使えません。アドレスが誤っているか、SOCKS プロキシです。</translation>
    </message>
    <message>
        <source>The proxy {0} does not let anything through to {1} (status {2}).</source>
        <translation>プロキシ {0} が {1} への通信を通しません (ステータス {2})。</translation>
    </message>
    <message>
        <source>The published tree, or paths of ranks such as [[0], [1], [0, 0]]; its likeliest part is used where nodes or depth allow no more.</source>
        <translation>公表されたツリー、または [[0], [1], [0, 0]] のような順位の道筋。ノードや深さに収まらない場合は、最も確率の高い部分を使います。</translation>
    </message>
    <message>
        <source>The quantised weights in {0} cannot be read.</source>
        <translation>{0} の量子化された重みを読めません。</translation>
    </message>
    <message>
        <source>The repetition penalty is {0}.</source>
        <translation>繰り返しペナルティが {0} です。</translation>
    </message>
    <message>
        <source>The reply length is {0} tokens.</source>
        <translation>応答の長さが {0} トークンです。</translation>
    </message>
    <message>
        <source>The target stays in its own MXFP4.</source>
        <translation>ターゲットモデルは元の MXFP4 のままです。</translation>
    </message>
    <message>
        <source>The temperature is {0}.</source>
        <translation>温度が {0} です。</translation>
    </message>
    <message>
        <source>The tensor {0} has shape {1} where config.json asks for {2}.</source>
        <translation>テンソル {0} の形は {1} ですが、config.json では {2} です。</translation>
    </message>
    <message>
        <source>The tensor {0} has {1} bytes for {2} × {3}.</source>
        <translation>テンソル {0} は {2} × {3} に対して {1} バイトです。</translation>
    </message>
    <message>
        <source>The tensor {0} holds values that are not finite numbers (NaN or infinity).</source>
        <translation>テンソル {0} に有限でない値があります (NaN または無限大)。</translation>
    </message>
    <message>
        <source>The tensor {0} holds {1}, not numbers of 16 or 32 bits.</source>
        <translation>テンソル {0} は {1} で、16 ビットや 32 ビットの数ではありません。</translation>
    </message>
    <message>
        <source>The tensor {0} is both in {1} and in {2}.</source>
        <translation>テンソル {0} が {1} と {2} の両方にあります。</translation>
    </message>
    <message>
        <source>The tensor {0} is in two of the head's files.</source>
        <translation>テンソル {0} がヘッドの二つのファイルにあります。</translation>
    </message>
    <message>
        <source>The tensor {0} of {1} has shape {2} where {3} is expected.</source>
        <translation>{1} のテンソル {0} の形は {2} ですが、{3} が期待されます。</translation>
    </message>
    <message>
        <source>The tensor {0} of {1} is quantised in an unknown way ({2}).</source>
        <translation>{1} のテンソル {0} は未知の方法で量子化されています ({2})。</translation>
    </message>
    <message>
        <source>The tensor {0}.absmax or .quant_map has an unexpected size.</source>
        <translation>テンソル {0}.absmax または .quant_map の大きさが想定と異なります。</translation>
    </message>
    <message>
        <source>The tensor {0}.g_idx has groups of unequal size.</source>
        <translation>テンソル {0}.g_idx のグループの大きさがそろっていません。</translation>
    </message>
    <message>
        <source>The tensor {0}.weight has shape {1} where config.json asks for {2}.</source>
        <translation>テンソル {0}.weight の形は {1} ですが、config.json では {2} です。</translation>
    </message>
    <message>
        <source>The tensor {0}.{1} is damaged ({2}).</source>
        <translation>テンソル {0}.{1} が壊れています ({2})。</translation>
    </message>
    <message>
        <source>The token holds a space, or a letter that no token has: it was not copied whole, or with more.</source>
        <translation>トークンに空白、またはトークンには使われない文字が含まれています。一部しかコピーされていないか、余分なものまでコピーされています。</translation>
    </message>
    <message>
        <source>The token may not read gated repositories such as {0}.</source>
        <translation>このトークンでは、{0} のようなアクセス制限のあるリポジトリを読めません。</translation>
    </message>
    <message>
        <source>The tokenizer in {0} cannot be converted ({1}).</source>
        <translation>{0} のトークナイザーを変換できません ({1})。</translation>
    </message>
    <message>
        <source>The tokenizer of {0} decodes with {1}, which cannot be shown as it is written.</source>
        <translation>{0} のトークナイザーは {1} でデコードするため、書きながら表示できません。</translation>
    </message>
    <message>
        <source>The tree “{0}” makes no sense: {1}.</source>
        <translation>ツリー「{0}」が正しくありません: {1}。</translation>
    </message>
    <message>
        <source>The {0} is full.</source>
        <translation>{0} がいっぱいです。</translation>
    </message>
    <message>
        <source>There is no GPU {0}; {1} were found.</source>
        <translation>GPU {0} はありません。見つかったのは {1} 基です。</translation>
    </message>
    <message>
        <source>There is no file {0}.</source>
        <translation>ファイル {0} がありません。</translation>
    </message>
    <message>
        <source>There is no method “{0}”.</source>
        <translation>方式「{0}」はありません。</translation>
    </message>
    <message>
        <source>There is no model folder {0}.</source>
        <translation>モデルのフォルダー {0} がありません。</translation>
    </message>
    <message>
        <source>There is no model folder {0}: it {1}.</source>
        <translation>モデルのフォルダー {0} がありません: it {1}。</translation>
    </message>
    <message>
        <source>There is no user message to answer.</source>
        <translation>答えるべきユーザーのメッセージがありません。</translation>
    </message>
    <message>
        <source>These Medusa heads come inside a model that was trained with them (Medusa-2).</source>
        <translation>これらの Medusa ヘッドは、一緒に学習したモデルの中にあります (Medusa-2)。</translation>
    </message>
    <message>
        <source>This drafter is of the kind {0}.</source>
        <translation>このドラフターの種類は {0} です。</translation>
    </message>
    <message>
        <source>This failed: {0}.</source>
        <translation>失敗しました: {0}。</translation>
    </message>
    <message>
        <source>This head belongs to another model. {0}{1}</source>
        <translation>このヘッドは別のモデルのものです。{0}{1}</translation>
    </message>
    <message>
        <source>This head does not say which layers it taps, and the usual ones do not exist in a model of {0}.</source>
        <translation>このヘッドにはどの層を読むかが書かれておらず、{0} のモデルには通常の層がありません。</translation>
    </message>
    <message>
        <source>This head drafts all tokens at once, which is not supported.</source>
        <translation>このヘッドはすべてのトークンを一度にドラフトします。この方式には対応していません。</translation>
    </message>
    <message>
        <source>This head guesses no better than chance for this model: it foresees nothing of the model's own replies. It was made for another model, or its file is damaged. Replies stay right, but they do not get faster: choose another head, or chat without one.</source>
        <translation>このヘッドの推測は、このモデルでは偶然と変わりません。モデル自身の応答を何も予測できません。別のモデル用か、ファイルが壊れています。応答は正しいままですが、速くはなりません。別のヘッドを選ぶか、ヘッドなしでチャットしてください。</translation>
    </message>
    <message>
        <source>This head has DeepSeek's multi-head latent attention.</source>
        <translation>このヘッドは DeepSeek の multi-head latent attention を使っています。</translation>
    </message>
    <message>
        <source>This head reads the model's final state only, a variant of EAGLE-3 that is not supported.</source>
        <translation>このヘッドはモデルの最終状態だけを読みます。EAGLE-3 のこの変種には対応していません。</translation>
    </message>
    <message>
        <source>This head sets {0} to {1}, a variant that is not supported.</source>
        <translation>このヘッドは {0} を {1} に設定しています。この変種には対応していません。</translation>
    </message>
    <message>
        <source>This is a {0} drafter, not an EAGLE head.</source>
        <translation>これは {0} のドラフターで、EAGLE ヘッドではありません。</translation>
    </message>
    <message>
        <source>This is no EAGLE head: it has no attention layer of its own.</source>
        <translation>これは EAGLE ヘッドではありません。自身のアテンション層がありません。</translation>
    </message>
    <message>
        <source>This is no EAGLE head: it has several layers, as a whole model has.</source>
        <translation>これは EAGLE ヘッドではありません。モデル全体のように複数の層があります。</translation>
    </message>
    <message>
        <source>This is no EAGLE-3 head: {0} holds a head {1}.</source>
        <translation>これは EAGLE-3 のヘッドではありません: {0} にあるのは {1} のヘッドです。</translation>
    </message>
    <message>
        <source>Token ids are 0 to {0}.</source>
        <translation>トークン ID は 0 から {0} までです。</translation>
    </message>
    <message>
        <source>Top-k</source>
        <translation>Top-k</translation>
    </message>
    <message>
        <source>Tree</source>
        <translation>ツリー</translation>
    </message>
    <message>
        <source>Try again in a few minutes.</source>
        <translation>数分後にもう一度試してください。</translation>
    </message>
    <message>
        <source>Try again later, or from another network: something on the way changes the data.</source>
        <translation>後で、または別のネットワークから試してください。途中の何かがデータを変えています。</translation>
    </message>
    <message>
        <source>Try again later.</source>
        <translation>後でもう一度試してください。</translation>
    </message>
    <message>
        <source>Try again.</source>
        <translation>もう一度試してください。</translation>
    </message>
    <message>
        <source>Try again; if it stays, report it.</source>
        <translation>もう一度試してください。続くようなら報告してください。</translation>
    </message>
    <message>
        <source>Try later.</source>
        <translation>後で試してください。</translation>
    </message>
    <message>
        <source>Type a message first.</source>
        <translation>先にメッセージを入力してください。</translation>
    </message>
    <message>
        <source>Typical: delta</source>
        <translation>典型: デルタ</translation>
    </message>
    <message>
        <source>Typical: threshold</source>
        <translation>典型: しきい値</translation>
    </message>
    <message>
        <source>Update the NVIDIA driver, or choose the device cpu.</source>
        <translation>NVIDIA ドライバーを更新するか、デバイス cpu を選んでください。</translation>
    </message>
    <message>
        <source>Use a model that is already here, or unset HF_HUB_OFFLINE and start Eyrie again.</source>
        <translation>すでにあるモデルを使うか、HF_HUB_OFFLINE を解除して Eyrie を再起動してください。</translation>
    </message>
    <message>
        <source>Waiting for another Eyrie that prepares the same model</source>
        <translation>同じモデルを準備している別の Eyrie を待っています</translation>
    </message>
    <message>
        <source>Weights quantised by {0} are not read here.</source>
        <translation>{0} で量子化された重みは、ここでは読めません。</translation>
    </message>
    <message>
        <source>What answers at {0} does not speak as a model hub does.</source>
        <translation>{0} からの応答はモデルハブのものではありません。</translation>
    </message>
    <message>
        <source>What had come is kept: continue it, or write it again.</source>
        <translation>届いた分は残っています。続けるか、書き直してください。</translation>
    </message>
    <message>
        <source>What has arrived is kept. Check {0} and resume the download.</source>
        <translation>届いた分は残っています。{0} を確認して、ダウンロードを再開してください。</translation>
    </message>
    <message>
        <source>Window</source>
        <translation>ウィンドウ</translation>
    </message>
    <message>
        <source>Write a Python function that reverses a list.</source>
        <translation>リストを逆順にする Python の関数を書いてください。</translation>
    </message>
    <message>
        <source>Write a message and send it.</source>
        <translation>メッセージを書いて送信してください。</translation>
    </message>
    <message>
        <source>Write them into HTTP_PROXY and HTTPS_PROXY (http://name:password@host:port), then start Eyrie again.</source>
        <translation>HTTP_PROXY と HTTPS_PROXY に書き込み (http://name:password@host:port)、Eyrie を再起動してください。</translation>
    </message>
    <message>
        <source>Writing into {0} failed ({1}).</source>
        <translation>{0} への書き込みに失敗しました ({1})。</translation>
    </message>
    <message>
        <source>a namespace cannot hold {0}</source>
        <translation>名前空間に {0} は入れられません</translation>
    </message>
    <message>
        <source>bitsandbytes, which 4-bit weights need, does not load ({0}: {1}).</source>
        <translation>4 ビットの重みに必要な bitsandbytes を読み込めません ({0}: {1})。</translation>
    </message>
    <message>
        <source>config.json lacks or garbles a field: {0}.</source>
        <translation>config.json に項目がないか、壊れています: {0}。</translation>
    </message>
    <message>
        <source>its author, 147 to 231 tokens/s</source>
        <translation>作者による、147～231 トークン/秒</translation>
    </message>
    <message>
        <source>its author, 186 to 365 tokens/s on an H200 with SGLang</source>
        <translation>作者による、H200 と SGLang で 186～365 トークン/秒</translation>
    </message>
    <message>
        <source>torch finds no NVIDIA GPU.</source>
        <translation>torch が NVIDIA GPU を見つけられません。</translation>
    </message>
    <message>
        <source>transformers cannot load {0} either: {1}</source>
        <translation>transformers でも {0} を読み込めません: {1}</translation>
    </message>
    <message>
        <source>{0} arrived damaged: {1}.</source>
        <translation>{0} が壊れて届きました: {1}。</translation>
    </message>
    <message>
        <source>{0} cannot be deleted: its files are in use, or protected.</source>
        <translation>{0} を削除できません: ファイルが使用中か、保護されています。</translation>
    </message>
    <message>
        <source>{0} cannot be deleted: some of its files are missing.</source>
        <translation>{0} を削除できません: 一部のファイルがありません。</translation>
    </message>
    <message>
        <source>{0} cannot be deleted: {1}.</source>
        <translation>{0} を削除できません: {1}。</translation>
    </message>
    <message>
        <source>{0} cannot be read ({1}).</source>
        <translation>{0} を読めません ({1})。</translation>
    </message>
    <message>
        <source>{0} cannot be read as JSON: {1}.</source>
        <translation>{0} を JSON として読めません: {1}。</translation>
    </message>
    <message>
        <source>{0} cannot be read: it is no text in UTF-8.</source>
        <translation>{0} を読み取れません。UTF-8 のテキストではありません。</translation>
    </message>
    <message>
        <source>{0} cannot be read: {1}.</source>
        <translation>{0} を読めません: {1}。</translation>
    </message>
    <message>
        <source>{0} cannot be used here.</source>
        <translation>{0} はここでは使えません。</translation>
    </message>
    <message>
        <source>{0} cannot be written: {1}.</source>
        <translation>{0} に書き込めません: {1}。</translation>
    </message>
    <message>
        <source>{0} changed on the hub while it was downloaded.</source>
        <translation>{0} は、ダウンロード中にハブで変更されました。</translation>
    </message>
    <message>
        <source>{0} could not be downloaded: {1}.</source>
        <translation>{0} をダウンロードできませんでした: {1}。</translation>
    </message>
    <message>
        <source>{0} does not exist.</source>
        <translation>{0} がありません。</translation>
    </message>
    <message>
        <source>{0} does not hold a JSON object.</source>
        <translation>{0} に JSON オブジェクトがありません。</translation>
    </message>
    <message>
        <source>{0} does not hold named tensors.</source>
        <translation>{0} に名前付きテンソルがありません。</translation>
    </message>
    <message>
        <source>{0} does not list the head's files.</source>
        <translation>{0} にヘッドのファイルの一覧がありません。</translation>
    </message>
    <message>
        <source>{0} does not say what kind each token is.</source>
        <translation>{0} に各トークンの種類が書かれていません。</translation>
    </message>
    <message>
        <source>{0} has a token twice in its vocabulary.</source>
        <translation>{0} の語彙に同じトークンが二度あります。</translation>
    </message>
    <message>
        <source>{0} has a tokenizer of kind {1}, which cannot be converted yet.</source>
        <translation>{0} のトークナイザーは {1} で、まだ変換できません。</translation>
    </message>
    <message>
        <source>{0} has an unfinished download, which would be deleted with it.</source>
        <translation>{0} には未完了のダウンロードがあり、一緒に削除されてしまいます。</translation>
    </message>
    <message>
        <source>{0} has an unknown tensor: {1}.</source>
        <translation>{0} に未知のテンソルがあります: {1}。</translation>
    </message>
    <message>
        <source>{0} has another vocabulary than the model. Choose a smaller model of the same family.</source>
        <translation>{0} の語彙はモデルと異なります。同じ系列の小さなモデルを選んでください。</translation>
    </message>
    <message>
        <source>{0} has neither {1} nor {2}.</source>
        <translation>{0} に {1} も {2} もありません。</translation>
    </message>
    <message>
        <source>{0} has no file {1}.</source>
        <translation>{0} にファイル {1} がありません。</translation>
    </message>
    <message>
        <source>{0} has no setting “{1}”.</source>
        <translation>{0} に設定「{1}」はありません。</translation>
    </message>
    <message>
        <source>{0} has no such {1}.</source>
        <translation>{0} にその {1} はありません。</translation>
    </message>
    <message>
        <source>{0} has no tokenizer.json.</source>
        <translation>{0} に tokenizer.json がありません。</translation>
    </message>
    <message>
        <source>{0} has no {1}, only {2}.</source>
        <translation>{0} に {1} がなく、{2} だけがあります。</translation>
    </message>
    <message>
        <source>{0} holds more than tensors and was not opened: {1}</source>
        <translation>{0} にはテンソル以外のものが含まれるため、開きませんでした: {1}</translation>
    </message>
    <message>
        <source>{0} holds no GGUF files.</source>
        <translation>{0} に GGUF ファイルがありません。</translation>
    </message>
    <message>
        <source>{0} holds no JSON object.</source>
        <translation>{0} に JSON オブジェクトがありません。</translation>
    </message>
    <message>
        <source>{0} holds no weights that Eyrie can read.</source>
        <translation>{0} に Eyrie が読める重みがありません。</translation>
    </message>
    <message>
        <source>{0} holds numbers of the kind {1}, which torch lacks.</source>
        <translation>{0} に、torch にない種類 {1} の数があります。</translation>
    </message>
    <message>
        <source>{0} holds something other than tensors, which is not opened.</source>
        <translation>{0} にテンソル以外のものがあり、開きません。</translation>
    </message>
    <message>
        <source>{0} holds the tensor {1}, which {2} of this kind does not have.</source>
        <translation>{0} に、この種類の {2} にはないテンソル {1} があります。</translation>
    </message>
    <message>
        <source>{0} holds {1} GGUF files.</source>
        <translation>{0} に {1} 個の GGUF ファイルがあります。</translation>
    </message>
    <message>
        <source>{0} is a GGUF file of version {1}; versions 2 and 3 are known.</source>
        <translation>{0} は GGUF のバージョン {1} のファイルです。対応しているのはバージョン 2 と 3 です。</translation>
    </message>
    <message>
        <source>{0} is a Git LFS pointer, not the weights themselves.</source>
        <translation>{0} は Git LFS のポインターで、重みそのものではありません。</translation>
    </message>
    <message>
        <source>{0} is a sentencepiece model of another kind than Llama's.</source>
        <translation>{0} は、Llama とは別の種類の sentencepiece モデルです。</translation>
    </message>
    <message>
        <source>{0} is a {1} model; only {2} can be read from GGUF.</source>
        <translation>{0} は {1} のモデルです。GGUF から読めるのは {2} だけです。</translation>
    </message>
    <message>
        <source>{0} is gated, and your account has not been let in.</source>
        <translation>{0} にはアクセス制限があり、あなたのアカウントは許可されていません。</translation>
    </message>
    <message>
        <source>{0} is gated: the hub gives it only to people who are logged in.</source>
        <translation>{0} にはアクセス制限があり、ハブはログインした人にだけ渡します。</translation>
    </message>
    <message>
        <source>{0} is missing in {1}.</source>
        <translation>{1} に {0} がありません。</translation>
    </message>
    <message>
        <source>{0} is missing, and so is pytorch_model.bin.</source>
        <translation>{0} も pytorch_model.bin もありません。</translation>
    </message>
    <message>
        <source>{0} is missing.</source>
        <translation>{0} がありません。</translation>
    </message>
    <message>
        <source>{0} is no GGUF file.</source>
        <translation>{0} は GGUF ファイルではありません。</translation>
    </message>
    <message>
        <source>{0} is no plain list of named tensors.</source>
        <translation>{0} は名前付きテンソルの単純な一覧ではありません。</translation>
    </message>
    <message>
        <source>{0} is no whole model: {1}.</source>
        <translation>{0} は完全なモデルではありません: {1}。</translation>
    </message>
    <message>
        <source>{0} is not a JSON object.</source>
        <translation>{0} は JSON オブジェクトではありません。</translation>
    </message>
    <message>
        <source>{0} is not a complete PyTorch file: {1}</source>
        <translation>{0} は完全な PyTorch ファイルではありません: {1}</translation>
    </message>
    <message>
        <source>{0} is not a complete safetensors file: {1}</source>
        <translation>{0} は完全な safetensors ファイルではありません: {1}</translation>
    </message>
    <message>
        <source>{0} is not a complete safetensors file: {1}.</source>
        <translation>{0} は完全な safetensors ファイルではありません: {1}。</translation>
    </message>
    <message>
        <source>{0} is not a safetensors file ({1} bytes).</source>
        <translation>{0} は safetensors ファイルではありません ({1} バイト)。</translation>
    </message>
    <message>
        <source>{0} is not a sentencepiece model ({1}).</source>
        <translation>{0} は sentencepiece モデルではありません ({1})。</translation>
    </message>
    <message>
        <source>{0} is not a usable GGUF file: {1}.</source>
        <translation>{0} は使える GGUF ファイルではありません: {1}。</translation>
    </message>
    <message>
        <source>{0} is not supported.</source>
        <translation>{0} には対応していません。</translation>
    </message>
    <message>
        <source>{0} is not valid JSON: {1}.</source>
        <translation>{0} は正しい JSON ではありません: {1}。</translation>
    </message>
    <message>
        <source>{0} is one of several parts, and not all of them are here.</source>
        <translation>{0} は複数の部分の一つで、すべてはそろっていません。</translation>
    </message>
    <message>
        <source>{0} is quantised as {1}, which cannot be converted.</source>
        <translation>{0} は {1} で量子化されており、変換できません。</translation>
    </message>
    <message>
        <source>{0} is the largest that has room on the disk; {1} {2}.</source>
        <translation>{0} はディスクに収まる最大のものです。{1} {2}。</translation>
    </message>
    <message>
        <source>{0} is the smallest; not even it has room on the disk.</source>
        <translation>{0} が最小ですが、それでもディスクに収まりません。</translation>
    </message>
    <message>
        <source>{0} is the usual choice: small, and close to the original.</source>
        <translation>{0} が一般的な選択です。小さく、元のモデルに近いです。</translation>
    </message>
    <message>
        <source>{0} is tried again.</source>
        <translation>{0} をもう一度試します。</translation>
    </message>
    <message>
        <source>{0} is truncated or damaged: its header runs past the end at {1} bytes.</source>
        <translation>{0} は途中で切れているか壊れています。ヘッダーが末尾の {1} バイトを越えています。</translation>
    </message>
    <message>
        <source>{0} is truncated: {1} bytes where {2} are expected.</source>
        <translation>{0} は途中で切れています: {1} バイトですが、{2} バイトが期待されます。</translation>
    </message>
    <message>
        <source>{0} is truncated: {1} bytes, and its header alone needs {2}.</source>
        <translation>{0} は途中で切れています: {1} バイトですが、ヘッダーだけで {2} バイト必要です。</translation>
    </message>
    <message>
        <source>{0} is {1}: {2} bytes where {3} are expected.</source>
        <translation>{0} は {1}: {2} バイトですが、{3} バイトが期待されます。</translation>
    </message>
    <message>
        <source>{0} lacks the tensor {1}, which {2} says is in it.</source>
        <translation>{0} にテンソル {1} がありません。{2} によればあるはずです。</translation>
    </message>
    <message>
        <source>{0} lacks the tensor {1}.</source>
        <translation>{0} にテンソル {1} がありません。</translation>
    </message>
    <message>
        <source>{0} lacks the tensor {1}{2}.</source>
        <translation>{0} にテンソル {1}{2} がありません。</translation>
    </message>
    <message>
        <source>{0} lists no tensors.</source>
        <translation>{0} にテンソルの一覧がありません。</translation>
    </message>
    <message>
        <source>{0} names {1} as {2}, outside its vocabulary.</source>
        <translation>{0} は {1} を {2} としていますが、語彙の外です。</translation>
    </message>
    <message>
        <source>{0} needs {1} GB of the {2} in {3}, and {4} of {5} GB are free{6}</source>
        <translation>{0} には {3} の {2} が {1} GB 必要ですが、空きは {5} GB 中 {4} GB です{6}</translation>
    </message>
    <message>
        <source>{0} of {1} arrived just as the hub has it, but is no whole safetensors file.</source>
        <translation>{1} の {0} はハブにあるとおりに届きましたが、完全な safetensors ファイルではありません。</translation>
    </message>
    <message>
        <source>{0} of {1} cannot be read: {2}.</source>
        <translation>{1} の {0} を読めません: {2}。</translation>
    </message>
    <message>
        <source>{0} of {1} is no safetensors file: {2}.</source>
        <translation>{1} の {0} は safetensors ファイルではありません: {2}。</translation>
    </message>
    <message>
        <source>{0} points outside of its folder: {1}.</source>
        <translation>{0} が自分のフォルダーの外を指しています: {1}。</translation>
    </message>
    <message>
        <source>{0} runs through transformers.</source>
        <translation>{0} は transformers 経由で動きます。</translation>
    </message>
    <message>
        <source>{0} still needs {1}; the disk with {2} has {3} free, and {4} always stay free for other programs.</source>
        <translation>{0} にはあと {1} 必要です。{2} のあるディスクの空きは {3} で、うち {4} は他のプログラムのために常に空けておきます。</translation>
    </message>
    <message>
        <source>{0} was deleted or moved while it was being downloaded.</source>
        <translation>{0} はダウンロード中に削除または移動されました。</translation>
    </message>
    <message>
        <source>{0} {1}: it makes the reply slower here. It is tried again after {2} tokens.</source>
        <translation>{0} {1}: ここでは応答が遅くなるためです。{2} トークン後にもう一度試します。</translation>
    </message>
    <message>
        <source>{0}: config.json says {1} {2}, but the tensors have {3}.</source>
        <translation>{0}: config.json では {1} {2} ですが、テンソルは {3} です。</translation>
    </message>
    <message>
        <source>{0}: d2t points to token {1}, outside the vocabulary of {2}.</source>
        <translation>{0}: d2t がトークン {1} を指していますが、{2} の語彙の外です。</translation>
    </message>
    <message>
        <source>{0}: t2d does not mark the same tokens as d2t.</source>
        <translation>{0}: t2d の印が d2t のトークンと一致しません。</translation>
    </message>
    <message>
        <source>{0}: the draft tokens in d2t are not strictly increasing.</source>
        <translation>{0}: d2t のドラフトトークンが単調増加になっていません。</translation>
    </message>
    <message>
        <source>{0}: {1} belongs to other RoPE settings than config.json's.</source>
        <translation>{0}: {1} は config.json とは別の RoPE 設定のものです。</translation>
    </message>
    <message>
        <source>{0}: {1} has shape {2}, expected {3}{4}.</source>
        <translation>{0}: {1} の形は {2} ですが、{3} が期待されます{4}。</translation>
    </message>
    <message>
        <source>{0}: {1} holds values that are not finite numbers.</source>
        <translation>{0}: {1} に有限でない値があります。</translation>
    </message>
    <message>
        <source>{0}: {1} holds {2}, expected {3}.</source>
        <translation>{0}: {1} は {2} ですが、{3} が期待されます。</translation>
    </message>
    <message>
        <source>{0}: {1} is of the type {2}.</source>
        <translation>{0}: {1} の型は {2} です。</translation>
    </message>
    <message>
        <source>{0}× published: {1}.</source>
        <translation>公表値 {0} 倍: {1}。</translation>
    </message>
    <message>
        <source>{name} has no chat template of its own; the one its makers describe is used.</source>
        <translation>{name} には独自のチャットテンプレートがないため、作者が説明しているものを使います。</translation>
    </message>
    <message>
        <source>{name} has no chat template: it may be a base model, which continues text and was not taught to answer. A plain User/Assistant form is used. For answers, choose an instruction-tuned model (its name often ends in -it, -Instruct or -Chat).</source>
        <translation>{name} にはチャットテンプレートがありません。テキストを続けるだけで、答えることを学んでいない基盤モデルかもしれません。単純な User/Assistant 形式を使います。答えが必要なら、指示チューニング済みのモデルを選んでください (名前が -it、-Instruct、-Chat で終わることが多いです)。</translation>
    </message>
    <message>
        <source>“{0}” is no name of a repository.</source>
        <translation>「{0}」はリポジトリの名前ではありません。</translation>
    </message>
    <message>
        <source>“{0}” is not a device.</source>
        <translation>「{0}」はデバイスではありません。</translation>
    </message>
    <message>
        <source>“{0}” is not a weight format.</source>
        <translation>「{0}」は重みの形式ではありません。</translation>
    </message>
</context>
</TS>
