<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="zh_CN" sourcelanguage="en">
<context>
    <name>About</name>
    <message>
        <source>A local chat that shows speculative decoding at work: what the EAGLE head drafts, and what the model accepts.</source>
        <translation>展示投机解码实际运作的本地聊天：EAGLE 头起草了什么，模型接受了什么。</translation>
    </message>
    <message>
        <source>About Eyrie</source>
        <translation>关于 Eyrie</translation>
    </message>
</context>
<context>
    <name>Chats</name>
    <message numerus="yes">
        <source>%n chats could be saved from it.</source>
        <translation>
            <numerusform>从中保住了 %n 个聊天。</numerusform>
        </translation>
    </message>
    <message>
        <source>&amp;Delete chat</source>
        <translation>删除聊天(&amp;D)</translation>
    </message>
    <message>
        <source>&amp;Export chat…</source>
        <translation>导出聊天(&amp;E)…</translation>
    </message>
    <message>
        <source>&amp;Rename chat</source>
        <translation>重命名聊天(&amp;R)</translation>
    </message>
    <message>
        <source>A chat in this file is not complete: {error!r}.</source>
        <translation>此文件中有一个聊天不完整：{error!r}。</translation>
    </message>
    <message>
        <source>A comparison of a chat in this file comes twice.</source>
        <translation>此文件中某个聊天的一项对比出现了两次。</translation>
    </message>
    <message>
        <source>A part of the chats cannot be read ({error}). Start Eyrie again to have it checked.</source>
        <translation>部分聊天无法读取（{error}）。请重新启动 Eyrie 以进行检查。</translation>
    </message>
    <message>
        <source>Another export or import is not finished yet. Wait for it, or cancel it.</source>
        <translation>另一项导出或导入尚未完成。请等待其完成，或将其取消。</translation>
    </message>
    <message>
        <source>Chat: {name}</source>
        <translation>聊天：{name}</translation>
    </message>
    <message>
        <source>Chat: {name}, pinned</source>
        <translation>聊天：{name}，已置顶</translation>
    </message>
    <message>
        <source>Chats</source>
        <translation>聊天</translation>
    </message>
    <message>
        <source>Chats cannot be kept in this session: {error}. What is written now is lost when Eyrie ends.</source>
        <translation>本次运行无法保存聊天：{error}。现在写的内容会在 Eyrie 退出时丢失。</translation>
    </message>
    <message>
        <source>Chats with everything (*.json)</source>
        <translation>完整的聊天 (*.json)</translation>
    </message>
    <message>
        <source>Choose another file or folder.</source>
        <translation>请选择其他文件或文件夹。</translation>
    </message>
    <message>
        <source>Export all chats</source>
        <translation>导出所有聊天</translation>
    </message>
    <message>
        <source>Export chat</source>
        <translation>导出聊天</translation>
    </message>
    <message>
        <source>Exported to {path}</source>
        <translation>已导出到 {path}</translation>
    </message>
    <message>
        <source>Exporting “{name}”…</source>
        <translation>正在导出“{name}”…</translation>
    </message>
    <message>
        <source>Folder: {name}, folded</source>
        <translation>文件夹：{name}，已折叠</translation>
    </message>
    <message>
        <source>Folder: {name}, open</source>
        <translation>文件夹：{name}，已展开</translation>
    </message>
    <message>
        <source>Import chats</source>
        <translation>导入聊天</translation>
    </message>
    <message>
        <source>Importing “{name}”…</source>
        <translation>正在导入“{name}”…</translation>
    </message>
    <message>
        <source>Markdown to read (*.md)</source>
        <translation>供阅读的 Markdown (*.md)</translation>
    </message>
    <message>
        <source>Move to a &amp;new folder…</source>
        <translation>移到新文件夹(&amp;N)…</translation>
    </message>
    <message>
        <source>Move to f&amp;older</source>
        <translation>移到文件夹(&amp;O)</translation>
    </message>
    <message>
        <source>Name of the folder:</source>
        <translation>文件夹名称：</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>新聊天</translation>
    </message>
    <message>
        <source>New folder</source>
        <translation>新文件夹</translation>
    </message>
    <message>
        <source>No chat could be read from it.</source>
        <translation>未能从中读出任何聊天。</translation>
    </message>
    <message>
        <source>No folder</source>
        <translation>不放入文件夹</translation>
    </message>
    <message>
        <source>Nothing found</source>
        <translation>没有找到</translation>
    </message>
    <message>
        <source>Older</source>
        <translation>更早</translation>
    </message>
    <message>
        <source>P&amp;in chat</source>
        <translation>置顶聊天(&amp;I)</translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation>已置顶</translation>
    </message>
    <message>
        <source>Previous 30 days</source>
        <translation>最近 30 天</translation>
    </message>
    <message>
        <source>Previous 7 days</source>
        <translation>最近 7 天</translation>
    </message>
    <message>
        <source>Reply</source>
        <translation>回复</translation>
    </message>
    <message>
        <source>S&amp;ystem prompt and settings of this chat…</source>
        <translation>此聊天的系统提示和设置(&amp;Y)…</translation>
    </message>
    <message>
        <source>Search chats</source>
        <translation>搜索聊天</translation>
    </message>
    <message>
        <source>Search titles and messages of all chats</source>
        <translation>搜索所有聊天的标题和消息</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>系统提示</translation>
    </message>
    <message>
        <source>The chat could not be exported: {reason}.</source>
        <translation>无法导出聊天：{reason}。</translation>
    </message>
    <message>
        <source>The chats cannot be saved: {error}. They are kept in memory and saved as soon as it works.</source>
        <translation>无法保存聊天：{error}。内容暂存于内存，一旦可行便会保存。</translation>
    </message>
    <message>
        <source>The chats could not be exported: {reason}.</source>
        <translation>无法导出聊天：{reason}。</translation>
    </message>
    <message>
        <source>The chats could not be imported: {reason}.</source>
        <translation>无法导入聊天：{reason}。</translation>
    </message>
    <message>
        <source>The chats were written by a newer version of Eyrie. They can be read here, but nothing new is kept. Update Eyrie, or choose another data folder with --data-dir.</source>
        <translation>这些聊天由更新版本的 Eyrie 写入。这里可以阅读，但新内容不会保存。请更新 Eyrie，或用 --data-dir 选择其他数据文件夹。</translation>
    </message>
    <message>
        <source>The chats' database cannot be written ({error}): the chats can be read, but nothing new is kept. See that {file} and its folder can be written, or choose another data folder with --data-dir.</source>
        <translation>无法写入聊天数据库（{error}）：聊天可以阅读，但新内容不会保存。请确认 {file} 及其文件夹可写，或用 --data-dir 选择其他数据文件夹。</translation>
    </message>
    <message>
        <source>The chats' database is damaged ({error}), so what is written now is not saved. Copy what you need and start Eyrie again: it repairs the database.</source>
        <translation>聊天数据库已损坏（{error}），现在写入的内容不会保存。请复制需要的内容并重新启动 Eyrie：它会修复数据库。</translation>
    </message>
    <message>
        <source>The chats' database was damaged. {saved} The damaged file is kept as {file} in the data folder; if chats are missing, keep it for a repair.</source>
        <translation>聊天数据库已损坏。{saved}损坏的文件以 {file} 为名保留在数据文件夹中；若有聊天缺失，请留着它以便修复。</translation>
    </message>
    <message>
        <source>The export was cancelled; nothing was written.</source>
        <translation>导出已取消；未写入任何内容。</translation>
    </message>
    <message>
        <source>The import was cancelled; no chat was added.</source>
        <translation>导入已取消；未添加任何聊天。</translation>
    </message>
    <message>
        <source>The messages of a chat in this file do not make a tree.</source>
        <translation>此文件中某个聊天的消息不构成一棵树。</translation>
    </message>
    <message>
        <source>Today</source>
        <translation>今天</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>撤销</translation>
    </message>
    <message>
        <source>Yesterday</source>
        <translation>昨天</translation>
    </message>
    <message>
        <source>You</source>
        <translation>你</translation>
    </message>
    <message>
        <source>You are editing an earlier prompt. What followed it stays as another version.</source>
        <translation>正在编辑之前的提示。其后的内容会作为另一个版本保留。</translation>
    </message>
    <message>
        <source>a reply is being written</source>
        <translation>正在写回复</translation>
    </message>
    <message>
        <source>it has no messages yet</source>
        <translation>还没有消息</translation>
    </message>
    <message>
        <source>the chats cannot be saved now</source>
        <translation>目前无法保存聊天</translation>
    </message>
    <message>
        <source>they were written by a newer version of Eyrie, which keeps them differently. Update Eyrie, or choose another data folder with --data-dir</source>
        <translation>它们由更新版本的 Eyrie 以不同的方式写入。请更新 Eyrie，或用 --data-dir 选择其他数据文件夹</translation>
    </message>
    <message numerus="yes">
        <source>{count} chats exported to {path}</source>
        <translation>
            <numerusform>已将 {count} 个聊天导出到 {path}</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} chats imported</source>
        <translation>
            <numerusform>已导入 {count} 个聊天</numerusform>
        </translation>
    </message>
    <message>
        <source>{count} found</source>
        <translation>找到 {count} 个</translation>
    </message>
    <message>
        <source>{file} does not hold a list of chats.</source>
        <translation>{file} 不含聊天列表。</translation>
    </message>
    <message>
        <source>{file} does not hold chats of Eyrie.</source>
        <translation>{file} 不含 Eyrie 的聊天。</translation>
    </message>
    <message>
        <source>{file} is not a JSON file of chats ({error}).</source>
        <translation>{file} 不是聊天的 JSON 文件（{error}）。</translation>
    </message>
    <message>
        <source>{file} was written by a newer version of Eyrie. Update Eyrie to read it.</source>
        <translation>{file} 由更新版本的 Eyrie 写入。请更新 Eyrie 后再读取。</translation>
    </message>
    <message>
        <source>“{chat}” cannot be read ({error}). Start Eyrie again to have it checked.</source>
        <translation>无法读取“{chat}”（{error}）。请重新启动 Eyrie 以进行检查。</translation>
    </message>
    <message>
        <source>“{chat}” deleted</source>
        <translation>已删除“{chat}”</translation>
    </message>
    <message>
        <source>“{field}” of a chat or message in this file is not what it should be.</source>
        <translation>此文件中某个聊天或消息的“{field}”不符合要求。</translation>
    </message>
</context>
<context>
    <name>Commands</name>
    <message>
        <source>Chat</source>
        <translation>聊天</translation>
    </message>
    <message>
        <source>Commands and chats</source>
        <translation>命令和聊天</translation>
    </message>
    <message>
        <source>Find a command</source>
        <translation>查找命令</translation>
    </message>
    <message>
        <source>Type a command or a chat</source>
        <translation>输入命令或聊天</translation>
    </message>
    <message>
        <source>Type a command or the title of a chat</source>
        <translation>输入命令或聊天标题</translation>
    </message>
</context>
<context>
    <name>Compare</name>
    <message numerus="yes">
        <source>%n heads are on this computer.</source>
        <translation>
            <numerusform>这台电脑上有 %n 个头。</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n more can be downloaded in Models.</source>
        <translation>
            <numerusform>还有 %n 个可在“模型”中下载。</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n more lines were left out.</source>
        <translation>
            <numerusform>另有 %n 行被略去。</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n of {count} texts differ</source>
        <translation>
            <numerusform>{count} 篇文本中有 %n 篇不同</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n prompts</source>
        <translation>
            <numerusform>%n 条提示</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n prompts from {file}.</source>
        <translation>
            <numerusform>来自 {file} 的 %n 条提示。</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n repeats</source>
        <translation>
            <numerusform>重复 %n 次</numerusform>
        </translation>
    </message>
    <message>
        <source>&amp;Copy the picture</source>
        <translation>复制图片(&amp;C)</translation>
    </message>
    <message>
        <source>&amp;New comparison</source>
        <translation>新对比(&amp;N)</translation>
    </message>
    <message>
        <source>&amp;Save the picture…</source>
        <translation>保存图片(&amp;S)…</translation>
    </message>
    <message>
        <source>&amp;Start</source>
        <translation>开始(&amp;S)</translation>
    </message>
    <message numerus="yes">
        <source>, %n of them by ties within rounding</source>
        <translation>
            <numerusform>，其中 %n 篇因舍入内的平局而不同</numerusform>
        </translation>
    </message>
    <message>
        <source>0 takes the likeliest token each time</source>
        <translation>0 每次都取最可能的词元</translation>
    </message>
    <message>
        <source>A file</source>
        <translation>文件</translation>
    </message>
    <message>
        <source>A is faster: its speed over B's</source>
        <translation>A 更快：其速度与 B 之比</translation>
    </message>
    <message>
        <source>A is slower: its speed over B's</source>
        <translation>A 更慢：其速度与 B 之比</translation>
    </message>
    <message>
        <source>A over B</source>
        <translation>A 比 B</translation>
    </message>
    <message>
        <source>A penalty forbids one of the two tokens there: a real difference.</source>
        <translation>惩罚项禁止了该处两个词元之一：这是真正的差异。</translation>
    </message>
    <message>
        <source>A real difference: {side}'s token is ahead, the two lie {apart}; rounding accounts for {noise}.</source>
        <translation>真正的差异：{side} 的词元领先，两者相距 {apart}；舍入可解释 {noise}。</translation>
    </message>
    <message>
        <source>A reply broke off.</source>
        <translation>有一条回复中断了。</translation>
    </message>
    <message numerus="yes">
        <source>A side needs another head: the model is loaded again %n times.</source>
        <translation>
            <numerusform>有一方需要其他头：模型将重新加载 %n 次。</numerusform>
        </translation>
    </message>
    <message>
        <source>A tie within rounding: the two lie {apart}, and rounding accounts for {noise} on this machine.</source>
        <translation>舍入内的平局：两者相距 {apart}，而本机的舍入可解释 {noise}。</translation>
    </message>
    <message>
        <source>A tie: the target's logits of the two are equal.</source>
        <translation>平局：目标模型对两者的 logit 相等。</translation>
    </message>
    <message>
        <source>A {a}, B {b} tokens per second</source>
        <translation>A 每秒 {a} 个词元，B 每秒 {b} 个词元</translation>
    </message>
    <message>
        <source>A, tokens/s</source>
        <translation>A，词元/s</translation>
    </message>
    <message>
        <source>A, τ</source>
        <translation>A，τ</translation>
    </message>
    <message>
        <source>About the same: A's speed over B's</source>
        <translation>大致相同：A 的速度与 B 之比</translation>
    </message>
    <message>
        <source>After “…{text}”</source>
        <translation>在“…{text}”之后</translation>
    </message>
    <message numerus="yes">
        <source>All %n prompts of this chat</source>
        <translation>
            <numerusform>此聊天的全部 %n 条提示</numerusform>
        </translation>
    </message>
    <message>
        <source>All files (*)</source>
        <translation>所有文件 (*)</translation>
    </message>
    <message>
        <source>All prompts of this chat</source>
        <translation>此聊天的所有提示</translation>
    </message>
    <message>
        <source>Another folder…</source>
        <translation>其他文件夹…</translation>
    </message>
    <message>
        <source>As loaded (none)</source>
        <translation>按已加载（无）</translation>
    </message>
    <message>
        <source>As loaded ({head})</source>
        <translation>按已加载（{head}）</translation>
    </message>
    <message>
        <source>At the very beginning</source>
        <translation>就在开头</translation>
    </message>
    <message>
        <source>Automatic ({method})</source>
        <translation>自动（{method}）</translation>
    </message>
    <message>
        <source>B, tokens/s</source>
        <translation>B，词元/s</translation>
    </message>
    <message>
        <source>B, τ</source>
        <translation>B，τ</translation>
    </message>
    <message>
        <source>Both sides answer the same prompts, one reply at a time. Then you see how much faster one is and whether the texts are the same.</source>
        <translation>双方回答相同的提示，一次一条回复。之后可以看到一方快多少、文本是否相同。</translation>
    </message>
    <message>
        <source>Both sides are the same: this shows how much a repeat varies.</source>
        <translation>双方相同：这显示重复之间的波动有多大。</translation>
    </message>
    <message>
        <source>Broke off</source>
        <translation>已中断</translation>
    </message>
    <message>
        <source>Choose a file with prompts.</source>
        <translation>请选择含提示的文件。</translation>
    </message>
    <message>
        <source>Choose a file…</source>
        <translation>选择文件…</translation>
    </message>
    <message>
        <source>Choose another head for this side.</source>
        <translation>请为这一方选择其他头。</translation>
    </message>
    <message>
        <source>Choose another method or head for it.</source>
        <translation>请为它选择其他方法或头。</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>关闭</translation>
    </message>
    <message>
        <source>Compare again.</source>
        <translation>请重新对比。</translation>
    </message>
    <message>
        <source>Compare two settings</source>
        <translation>对比两种设置</translation>
    </message>
    <message>
        <source>Comparisons kept with this chat</source>
        <translation>与此聊天一起保存的对比</translation>
    </message>
    <message>
        <source>Copy as &amp;text</source>
        <translation>复制为文本(&amp;T)</translation>
    </message>
    <message>
        <source>Decode speed; the time to read the prompt is left out.</source>
        <translation>解码速度；不含读取提示的时间。</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>删除</translation>
    </message>
    <message>
        <source>Delete the chosen comparison</source>
        <translation>删除所选对比</translation>
    </message>
    <message>
        <source>EAGLE</source>
        <translation>EAGLE</translation>
    </message>
    <message>
        <source>Eyrie compared two settings</source>
        <translation>Eyrie 对比了两种设置</translation>
    </message>
    <message>
        <source>Finished</source>
        <translation>完成</translation>
    </message>
    <message>
        <source>Finished, context full</source>
        <translation>完成，上下文已满</translation>
    </message>
    <message>
        <source>Finished, length limit reached</source>
        <translation>完成，达到长度上限</translation>
    </message>
    <message>
        <source>First difference at token {number}</source>
        <translation>第一处不同在第 {number} 个词元</translation>
    </message>
    <message>
        <source>Folder of a head</source>
        <translation>头的文件夹</translation>
    </message>
    <message>
        <source>For both sides</source>
        <translation>双方共用</translation>
    </message>
    <message>
        <source>From one repeat: more of them would tell how exact it is.</source>
        <translation>仅来自一次重复：多重复几次才知道有多精确。</translation>
    </message>
    <message>
        <source>Head</source>
        <translation>头</translation>
    </message>
    <message numerus="yes">
        <source>Identical: all %n tokens are the same</source>
        <translation>
            <numerusform>完全一致：全部 %n 个词元相同</numerusform>
        </translation>
    </message>
    <message>
        <source>Identical: the texts of all {count} prompts</source>
        <translation>完全一致：全部 {count} 条提示的文本相同</translation>
    </message>
    <message>
        <source>It was stopped: this is what was complete by then.</source>
        <translation>已被停止：这是到那时为止完成的部分。</translation>
    </message>
    <message>
        <source>JSON lines with “turns” (or “prompt”, “text”), or a text with one prompt a line</source>
        <translation>含“turns”（或“prompt”、“text”）的 JSON 行，或每行一条提示的文本</translation>
    </message>
    <message>
        <source>Kept with this chat</source>
        <translation>与此聊天一起保存</translation>
    </message>
    <message>
        <source>Length of the reply, end token included.</source>
        <translation>回复长度，含结束词元。</translation>
    </message>
    <message>
        <source>Line {number} has no “turns” with a text.</source>
        <translation>第 {number} 行没有含文本的“turns”。</translation>
    </message>
    <message>
        <source>Line {number} is no JSON.</source>
        <translation>第 {number} 行不是 JSON。</translation>
    </message>
    <message>
        <source>Lists of prompts (*.jsonl *.json *.ndjson *.txt *.md)</source>
        <translation>提示列表 (*.jsonl *.json *.ndjson *.txt *.md)</translation>
    </message>
    <message>
        <source>Load a model first, or choose a head's folder.</source>
        <translation>请先加载模型，或选择头的文件夹。</translation>
    </message>
    <message>
        <source>Load a model, then compare again.</source>
        <translation>请加载模型，然后重新对比。</translation>
    </message>
    <message>
        <source>Loading the head of this side…</source>
        <translation>正在加载这一方的头…</translation>
    </message>
    <message>
        <source>Longest reply (tokens)</source>
        <translation>最长回复（词元）</translation>
    </message>
    <message>
        <source>Look for other heads on this computer…</source>
        <translation>在这台电脑上查找其他头…</translation>
    </message>
    <message>
        <source>Looking at the logits where the texts part…</source>
        <translation>正在查看文本分开处的 logit…</translation>
    </message>
    <message>
        <source>Looking for heads on this computer…</source>
        <translation>正在这台电脑上查找头…</translation>
    </message>
    <message>
        <source>Median of {count} repeats, which lie between {low} and {high}.</source>
        <translation>{count} 次重复的中位数，介于 {low} 与 {high} 之间。</translation>
    </message>
    <message>
        <source>Method</source>
        <translation>方法</translation>
    </message>
    <message>
        <source>No model is loaded.</source>
        <translation>没有加载模型。</translation>
    </message>
    <message>
        <source>No model is loaded. Load one to compare.</source>
        <translation>没有加载模型。请加载一个再对比。</translation>
    </message>
    <message>
        <source>No other head of this model is on this computer.</source>
        <translation>这台电脑上没有此模型的其他头。</translation>
    </message>
    <message>
        <source>No pair of replies has speeds to compare</source>
        <translation>没有可比较速度的一对回复</translation>
    </message>
    <message>
        <source>Not compared</source>
        <translation>未对比</translation>
    </message>
    <message>
        <source>Not run</source>
        <translation>未运行</translation>
    </message>
    <message>
        <source>Nothing was compared yet</source>
        <translation>尚未对比</translation>
    </message>
    <message>
        <source>One token for each pass of the target: what speed is measured against.</source>
        <translation>目标模型每次前向得到一个词元：作为速度的基准。</translation>
    </message>
    <message>
        <source>Only the first {most} of its {count} prompts are used.</source>
        <translation>只使用其 {count} 条提示中的前 {most} 条。</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>打开</translation>
    </message>
    <message>
        <source>Open the chosen comparison</source>
        <translation>打开所选对比</translation>
    </message>
    <message>
        <source>Over {count} prompts, from {low} to {high} by prompt.</source>
        <translation>共 {count} 条提示，各提示从 {low} 到 {high}。</translation>
    </message>
    <message>
        <source>Pause drafting while it loses, as in chats</source>
        <translation>起草得不偿失时暂停，与聊天中相同</translation>
    </message>
    <message>
        <source>Plain decoding</source>
        <translation>普通解码</translation>
    </message>
    <message>
        <source>Plain decoding (EAGLE off)</source>
        <translation>普通解码（EAGLE 关）</translation>
    </message>
    <message>
        <source>Progress of the comparison</source>
        <translation>对比进度</translation>
    </message>
    <message>
        <source>Prompt</source>
        <translation>提示</translation>
    </message>
    <message>
        <source>Prompt {number} of {count}: {text}</source>
        <translation>提示 {number} / {count}：{text}</translation>
    </message>
    <message>
        <source>Prompt {number}: {verdict}</source>
        <translation>提示 {number}：{verdict}</translation>
    </message>
    <message>
        <source>Prompt: {text}</source>
        <translation>提示：{text}</translation>
    </message>
    <message>
        <source>Prompts</source>
        <translation>提示</translation>
    </message>
    <message>
        <source>Prompts, one a line</source>
        <translation>提示，每行一条</translation>
    </message>
    <message>
        <source>Reading the prompt…</source>
        <translation>正在读取提示…</translation>
    </message>
    <message>
        <source>Repeats</source>
        <translation>重复次数</translation>
    </message>
    <message>
        <source>Reply {number} of {total}: side {side}</source>
        <translation>回复 {number} / {total}：{side} 方</translation>
    </message>
    <message>
        <source>Reply: {side}</source>
        <translation>回复：{side}</translation>
    </message>
    <message>
        <source>Restart the engine, then compare again.</source>
        <translation>请重新启动引擎，然后重新对比。</translation>
    </message>
    <message>
        <source>Result of the comparison</source>
        <translation>对比结果</translation>
    </message>
    <message>
        <source>Results by prompt</source>
        <translation>各提示的结果</translation>
    </message>
    <message>
        <source>Run &amp;again</source>
        <translation>再次运行(&amp;A)</translation>
    </message>
    <message>
        <source>S&amp;hare</source>
        <translation>分享(&amp;H)</translation>
    </message>
    <message>
        <source>S&amp;top</source>
        <translation>停止(&amp;T)</translation>
    </message>
    <message>
        <source>Save the picture</source>
        <translation>保存图片</translation>
    </message>
    <message>
        <source>Saved as {path}</source>
        <translation>已保存为 {path}</translation>
    </message>
    <message>
        <source>Scroll the comparison</source>
        <translation>滚动对比</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>随机种子</translation>
    </message>
    <message>
        <source>Side {letter}</source>
        <translation>{letter} 方</translation>
    </message>
    <message>
        <source>Some replies are short: longer ones give a steadier figure.</source>
        <translation>有些回复较短：更长的回复得到更稳定的数字。</translation>
    </message>
    <message>
        <source>Some replies differ in length. Speed changes with length, so the factor is not exact.</source>
        <translation>有些回复长度不同。速度随长度变化，因此倍数并不精确。</translation>
    </message>
    <message>
        <source>Stop the comparison</source>
        <translation>停止对比</translation>
    </message>
    <message>
        <source>Stopped</source>
        <translation>已停止</translation>
    </message>
    <message>
        <source>Stopped before a reply was complete. Nothing was compared.</source>
        <translation>在任何回复完成之前停止。没有进行对比。</translation>
    </message>
    <message>
        <source>Stopping after what the engine does now…</source>
        <translation>引擎完成当前工作后停止…</translation>
    </message>
    <message>
        <source>Swap A and B</source>
        <translation>交换 A 和 B</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>温度</translation>
    </message>
    <message>
        <source>Texts</source>
        <translation>文本</translation>
    </message>
    <message>
        <source>The engine is not running.</source>
        <translation>引擎没有运行。</translation>
    </message>
    <message>
        <source>The figures are in the clipboard.</source>
        <translation>数字已复制到剪贴板。</translation>
    </message>
    <message>
        <source>The head in {folder} cannot be used.</source>
        <translation>无法使用 {folder} 中的头。</translation>
    </message>
    <message>
        <source>The margin is not known: {reason}</source>
        <translation>差距未知：{reason}</translation>
    </message>
    <message>
        <source>The model was unloaded or changed meanwhile.</source>
        <translation>其间模型被卸载或更换。</translation>
    </message>
    <message>
        <source>The picture could not be saved ({reason}). Choose another folder.</source>
        <translation>无法保存图片（{reason}）。请选择其他文件夹。</translation>
    </message>
    <message>
        <source>The picture is in the clipboard.</source>
        <translation>图片已复制到剪贴板。</translation>
    </message>
    <message>
        <source>The same as far as both go; one reply did not reach its end</source>
        <translation>双方已有部分相同；有一条回复没有写完</translation>
    </message>
    <message>
        <source>The sides take turns as A B, B A, …; more repeats tell the spread</source>
        <translation>双方按 A B、B A、… 轮流；重复越多越能看出波动</translation>
    </message>
    <message>
        <source>The target itself would write {token}.</source>
        <translation>目标模型自己会写 {token}。</translation>
    </message>
    <message>
        <source>The temperature is above 0: both sides draw from the target's own distribution with the same seed. They agree where each guess is checked against the drawn token, and differ by design where a method draws its guesses.</source>
        <translation>温度高于 0：双方以相同的种子从目标模型自身的分布中抽样。当每个猜测都与抽出的词元核对时两者一致；当方法自己抽取猜测时，按设计会不同。</translation>
    </message>
    <message>
        <source>The two lie {apart}. Tokens are drawn here, so a difference says nothing against either side.</source>
        <translation>两者相距 {apart}。这里的词元是抽样得到的，因此不同并不说明任何一方有问题。</translation>
    </message>
    <message>
        <source>There is no prompt to compare on.</source>
        <translation>没有可用于对比的提示。</translation>
    </message>
    <message>
        <source>These, one a line</source>
        <translation>以下内容，每行一条</translation>
    </message>
    <message>
        <source>They do not agree on which is faster.</source>
        <translation>对于哪一方更快，它们并不一致。</translation>
    </message>
    <message>
        <source>This comparison cannot be read. Delete it, and compare again.</source>
        <translation>无法读取此对比。请删除它并重新对比。</translation>
    </message>
    <message>
        <source>This model does not know the method “{method}”.</source>
        <translation>此模型不支持方法“{method}”。</translation>
    </message>
    <message>
        <source>This prompt, with the chat before it</source>
        <translation>此提示，连同之前的聊天</translation>
    </message>
    <message>
        <source>Time from the request to the first token.</source>
        <translation>从请求到首个词元的时间。</translation>
    </message>
    <message>
        <source>Tokens emitted per pass of the target.</source>
        <translation>目标模型每次前向输出的词元数。</translation>
    </message>
    <message>
        <source>Tokens per second of both sides</source>
        <translation>双方每秒的词元数</translation>
    </message>
    <message>
        <source>Undo deleting</source>
        <translation>撤销删除</translation>
    </message>
    <message>
        <source>Waiting for its turn</source>
        <translation>等待轮到它</translation>
    </message>
    <message>
        <source>Waiting for the engine…</source>
        <translation>正在等待引擎…</translation>
    </message>
    <message>
        <source>What is complete is kept. Load the model again to compare once more.</source>
        <translation>已完成的部分会保留。重新加载模型即可再次对比。</translation>
    </message>
    <message>
        <source>Without a setting that changes the distribution this is a fault: please report it.</source>
        <translation>若没有改变分布的设置，这就是错误：请报告。</translation>
    </message>
    <message>
        <source>Without it a method drafts all the time, also where that is slower</source>
        <translation>不勾选时方法始终起草，即使会更慢</translation>
    </message>
    <message>
        <source>Write a prompt, or choose where prompts come from.</source>
        <translation>请写一条提示，或选择提示的来源。</translation>
    </message>
    <message>
        <source>Write one, or choose a file.</source>
        <translation>请写一条，或选择文件。</translation>
    </message>
    <message>
        <source>Write or paste prompts, one a line</source>
        <translation>输入或粘贴提示，每行一条</translation>
    </message>
    <message>
        <source>Writing…</source>
        <translation>正在写…</translation>
    </message>
    <message>
        <source>a few seconds left</source>
        <translation>还剩几秒</translation>
    </message>
    <message>
        <source>a part of a character</source>
        <translation>字符的一部分</translation>
    </message>
    <message numerus="yes">
        <source>about %n minutes left</source>
        <translation>
            <numerusform>还剩约 %n 分钟</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>about %n seconds left</source>
        <translation>
            <numerusform>还剩约 %n 秒</numerusform>
        </translation>
    </message>
    <message>
        <source>any</source>
        <translation>任意</translation>
    </message>
    <message>
        <source>at most {count} tokens</source>
        <translation>最多 {count} 个词元</translation>
    </message>
    <message>
        <source>differ at {number}</source>
        <translation>在第 {number} 个词元处不同</translation>
    </message>
    <message>
        <source>identical</source>
        <translation>一致</translation>
    </message>
    <message>
        <source>not complete</source>
        <translation>未完成</translation>
    </message>
    <message>
        <source>off</source>
        <translation>关</translation>
    </message>
    <message>
        <source>on</source>
        <translation>开</translation>
    </message>
    <message>
        <source>one of the replies had ended there.</source>
        <translation>其中一条回复在此已结束。</translation>
    </message>
    <message>
        <source>prompt {number} of {total}</source>
        <translation>提示 {number} / {total}</translation>
    </message>
    <message>
        <source>repeat {number} of {total}</source>
        <translation>重复 {number} / {total}</translation>
    </message>
    <message>
        <source>seed {value}</source>
        <translation>种子 {value}</translation>
    </message>
    <message>
        <source>temperature {value}</source>
        <translation>温度 {value}</translation>
    </message>
    <message>
        <source>to first token</source>
        <translation>到首个词元</translation>
    </message>
    <message>
        <source>tokens</source>
        <translation>词元</translation>
    </message>
    <message>
        <source>tokens per step (τ)</source>
        <translation>每步词元数 (τ)</translation>
    </message>
    <message>
        <source>tokens/s</source>
        <translation>词元/s</translation>
    </message>
    <message>
        <source>{a} or {b}</source>
        <translation>{a} 或 {b}</translation>
    </message>
    <message>
        <source>{file} cannot be read ({reason}). Choose another file.</source>
        <translation>无法读取 {file}（{reason}）。请选择其他文件。</translation>
    </message>
    <message>
        <source>{file} holds no prompts.{reason} Choose another file.</source>
        <translation>{file} 不含提示。{reason}请选择其他文件。</translation>
    </message>
    <message>
        <source>{file} is not a text in UTF-8. Choose another file.</source>
        <translation>{file} 不是 UTF-8 文本。请选择其他文件。</translation>
    </message>
    <message>
        <source>{file} is too large for a list of prompts. Choose a smaller file.</source>
        <translation>{file} 作为提示列表太大。请选择较小的文件。</translation>
    </message>
    <message>
        <source>{margin} logits apart</source>
        <translation>{margin} 个 logit</translation>
    </message>
    <message>
        <source>{method} – not with what is loaded</source>
        <translation>{method} – 当前加载的内容不支持</translation>
    </message>
    <message>
        <source>{method}, automatic</source>
        <translation>{method}，自动</translation>
    </message>
    <message>
        <source>{method}, head {head}</source>
        <translation>{method}，头 {head}</translation>
    </message>
    <message>
        <source>{sides} may leave the target's own distribution, so this is expected.</source>
        <translation>{sides} 可能偏离目标模型自身的分布，因此这在意料之中。</translation>
    </message>
    <message>
        <source>{side} cannot be run: {problem}</source>
        <translation>无法运行 {side}：{problem}</translation>
    </message>
    <message>
        <source>{side} changes the distribution: its text need not be the target's.</source>
        <translation>{side} 会改变分布：其文本不一定与目标模型的相同。</translation>
    </message>
    <message>
        <source>{side} itself wrote different texts in its repeats.</source>
        <translation>{side} 自己在重复中写出了不同的文本。</translation>
    </message>
    <message>
        <source>{side} never drafted, so this compares plain decoding.</source>
        <translation>{side} 从未起草，因此这里比较的是普通解码。</translation>
    </message>
    <message>
        <source>{side} paused drafting in {some} of {all} replies.</source>
        <translation>{side} 在 {all} 条回复中的 {some} 条里暂停了起草。</translation>
    </message>
    <message>
        <source>{side}: head</source>
        <translation>{side}：头</translation>
    </message>
    <message>
        <source>{side}: method</source>
        <translation>{side}：方法</translation>
    </message>
    <message>
        <source>{side}: the reply had ended</source>
        <translation>{side}：回复已结束</translation>
    </message>
    <message>
        <source>{side}: {token} (id {id})</source>
        <translation>{side}：{token}（id {id}）</translation>
    </message>
    <message>
        <source>{side}: {token} (id {id}, the target gives it {chance})</source>
        <translation>{side}：{token}（id {id}，目标模型给它 {chance}）</translation>
    </message>
    <message>
        <source>{speed} tokens/s</source>
        <translation>{speed} 词元/s</translation>
    </message>
    <message numerus="yes">
        <source>{what}: %n replies.</source>
        <translation>
            <numerusform>{what}：%n 条回复。</numerusform>
        </translation>
    </message>
    <message>
        <source>{where}, a tie</source>
        <translation>{where}，平局</translation>
    </message>
</context>
<context>
    <name>Composer</name>
    <message>
        <source>A reply is being written in “{chat}”. Esc stops it.</source>
        <translation>正在“{chat}”中写回复。按 Esc 停止。</translation>
    </message>
    <message>
        <source>A reply is being written. Esc stops it.</source>
        <translation>正在写回复。按 Esc 停止。</translation>
    </message>
    <message>
        <source>Attach text files</source>
        <translation>附加文本文件</translation>
    </message>
    <message>
        <source>Attach text files (UTF-8, up to {most} kB each); or drop them here</source>
        <translation>附加文本文件（UTF-8，每个最多 {most} kB）；也可拖放到此处</translation>
    </message>
    <message>
        <source>Attached files</source>
        <translation>已附加的文件</translation>
    </message>
    <message>
        <source>Enter sends, Shift+Enter starts a new line</source>
        <translation>Enter 发送，Shift+Enter 换行</translation>
    </message>
    <message>
        <source>Prompt</source>
        <translation>提示</translation>
    </message>
    <message>
        <source>Send (Enter)</source>
        <translation>发送 (Enter)</translation>
    </message>
    <message>
        <source>Stop the reply (Esc)</source>
        <translation>停止回复 (Esc)</translation>
    </message>
    <message>
        <source>Take {name} away</source>
        <translation>移除 {name}</translation>
    </message>
    <message>
        <source>Write a prompt…</source>
        <translation>输入提示…</translation>
    </message>
    <message numerus="yes">
        <source>{count} bytes</source>
        <translation>
            <numerusform>{count} 字节</numerusform>
        </translation>
    </message>
    <message>
        <source>{count} kB</source>
        <translation>{count} kB</translation>
    </message>
    <message>
        <source>“{name}” could not be read: {reason}. Check that you may open it.</source>
        <translation>无法读取“{name}”：{reason}。请检查你是否有权打开它。</translation>
    </message>
    <message>
        <source>“{name}” is empty. Choose a file with text in it.</source>
        <translation>“{name}”是空的。请选择有文本内容的文件。</translation>
    </message>
    <message>
        <source>“{name}” is not a file. Choose single text files.</source>
        <translation>“{name}”不是文件。请选择单个文本文件。</translation>
    </message>
    <message>
        <source>“{name}” is not a text file. Only text can be attached.</source>
        <translation>“{name}”不是文本文件。只能附加文本。</translation>
    </message>
    <message>
        <source>“{name}” is not text in UTF-8. Save it as UTF-8 text and attach that.</source>
        <translation>“{name}”不是 UTF-8 文本。请另存为 UTF-8 文本后再附加。</translation>
    </message>
    <message>
        <source>“{name}” is too large ({size} kB; at most {most} kB can be attached). Attach a part of it.</source>
        <translation>“{name}”太大（{size} kB；最多可附加 {most} kB）。请附加其中一部分。</translation>
    </message>
</context>
<context>
    <name>Engine</name>
    <message>
        <source>Loading was cancelled, and nothing is in memory. A prompt loads the model again.</source>
        <translation>加载已取消，内存中没有模型。发送提示会重新加载模型。</translation>
    </message>
    <message>
        <source>No model is loaded, so nothing can be sent.</source>
        <translation>没有加载模型，因此无法发送。</translation>
    </message>
    <message>
        <source>The engine has stopped. Restart it to send.</source>
        <translation>引擎已停止。请重新启动它再发送。</translation>
    </message>
    <message>
        <source>The engine is busy with a comparison.</source>
        <translation>引擎正忙于对比。</translation>
    </message>
    <message>
        <source>The engine is starting. You can write already.</source>
        <translation>引擎正在启动。你可以先写。</translation>
    </message>
    <message>
        <source>The engine stopped unexpectedly.</source>
        <translation>引擎意外停止。</translation>
    </message>
    <message>
        <source>The model is loading. You can write already.</source>
        <translation>模型正在加载。你可以先写。</translation>
    </message>
    <message>
        <source>The model is unloaded and its memory is free. A prompt loads it again.</source>
        <translation>模型已卸载，内存已释放。发送提示会重新加载。</translation>
    </message>
    <message numerus="yes">
        <source>The model was unloaded after %n minutes without use. A prompt loads it again.</source>
        <translation>
            <numerusform>%n 分钟未使用，模型已卸载。发送提示会重新加载。</numerusform>
        </translation>
    </message>
    <message>
        <source>The model was unloaded while this was written.</source>
        <translation>写到这里时模型被卸载了。</translation>
    </message>
    <message>
        <source>What was received is kept. Load the model again to go on.</source>
        <translation>已收到的内容会保留。重新加载模型即可继续。</translation>
    </message>
    <message>
        <source>What was received is kept. Restart the engine to go on.</source>
        <translation>已收到的内容会保留。重新启动引擎即可继续。</translation>
    </message>
</context>
<context>
    <name>Examples</name>
    <message>
        <source>Ask a fact</source>
        <translation>问一个事实</translation>
    </message>
    <message>
        <source>Make a list</source>
        <translation>列个清单</translation>
    </message>
    <message>
        <source>Name the planets of the solar system in order.</source>
        <translation>Name the planets of the solar system in order.</translation>
    </message>
    <message>
        <source>Replies stream with their draft tree: what the head guessed, and what the target accepted.</source>
        <translation>回复连同草稿树一起实时显示：头猜测了什么，目标模型接受了什么。</translation>
    </message>
    <message>
        <source>Tell a short story about a fox who finds a lantern in the snow.</source>
        <translation>Tell a short story about a fox who finds a lantern in the snow.</translation>
    </message>
    <message>
        <source>Tell a story</source>
        <translation>讲个故事</translation>
    </message>
    <message>
        <source>Translate</source>
        <translation>翻译</translation>
    </message>
    <message>
        <source>Translate to French: The weather is beautiful today.</source>
        <translation>Translate to French: The weather is beautiful today.</translation>
    </message>
    <message>
        <source>What is the capital of Peru?</source>
        <translation>What is the capital of Peru?</translation>
    </message>
    <message>
        <source>What shall we write?</source>
        <translation>写点什么？</translation>
    </message>
</context>
<context>
    <name>Hub</name>
    <message>
        <source>(The card goes on; its page has the rest.)</source>
        <translation>（模型卡未完；其余见其网页。）</translation>
    </message>
    <message>
        <source>A head is loaded together with its model: choose the model.</source>
        <translation>头与模型一起加载：请选择模型。</translation>
    </message>
    <message>
        <source>About</source>
        <translation>简介</translation>
    </message>
    <message>
        <source>Access token</source>
        <translation>访问令牌</translation>
    </message>
    <message>
        <source>Account</source>
        <translation>账户</translation>
    </message>
    <message>
        <source>Account not reached</source>
        <translation>无法连接账户</translation>
    </message>
    <message>
        <source>Account: {name}.</source>
        <translation>账户：{name}。</translation>
    </message>
    <message>
        <source>Add a GGUF file…</source>
        <translation>添加 GGUF 文件…</translation>
    </message>
    <message>
        <source>Add a folder…</source>
        <translation>添加文件夹…</translation>
    </message>
    <message>
        <source>An entered token goes into the system's keyring, or stays until Eyrie ends where there is none. It is sent to the hub alone.</source>
        <translation>输入的令牌会存入系统密钥环；没有密钥环时只保留到 Eyrie 退出。它只会发送给模型中心。</translation>
    </message>
    <message>
        <source>Any family</source>
        <translation>任意系列</translation>
    </message>
    <message>
        <source>Any licence</source>
        <translation>任意许可证</translation>
    </message>
    <message>
        <source>Any size</source>
        <translation>任意大小</translation>
    </message>
    <message>
        <source>Based on</source>
        <translation>基于</translation>
    </message>
    <message>
        <source>Cancel and delete</source>
        <translation>取消并删除</translation>
    </message>
    <message>
        <source>Cancel the download</source>
        <translation>取消下载</translation>
    </message>
    <message>
        <source>Cancel the download of {name}?</source>
        <translation>取消下载 {name}？</translation>
    </message>
    <message>
        <source>Cancel, keep what arrived</source>
        <translation>取消，保留已下载部分</translation>
    </message>
    <message>
        <source>Cancel…</source>
        <translation>取消…</translation>
    </message>
    <message>
        <source>Choose a GGUF file</source>
        <translation>选择 GGUF 文件</translation>
    </message>
    <message>
        <source>Choose a model at the left.</source>
        <translation>请在左侧选择模型。</translation>
    </message>
    <message>
        <source>Choose the folder of a model or a head</source>
        <translation>选择模型或头的文件夹</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>关闭</translation>
    </message>
    <message>
        <source>Context</source>
        <translation>上下文</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>删除</translation>
    </message>
    <message>
        <source>Delete a model</source>
        <translation>删除模型</translation>
    </message>
    <message>
        <source>Delete the chosen model from the hub cache</source>
        <translation>从模型中心缓存中删除所选模型</translation>
    </message>
    <message>
        <source>Delete {name} from this computer?</source>
        <translation>从这台电脑删除 {name}？</translation>
    </message>
    <message>
        <source>Deleted with it: {names}.</source>
        <translation>一并删除：{names}。</translation>
    </message>
    <message>
        <source>Delete…</source>
        <translation>删除…</translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation>忽略</translation>
    </message>
    <message>
        <source>Download</source>
        <translation>下载</translation>
    </message>
    <message>
        <source>Download of {name}</source>
        <translation>下载 {name}</translation>
    </message>
    <message>
        <source>Download {size}</source>
        <translation>下载 {size}</translation>
    </message>
    <message numerus="yes">
        <source>Downloading %n models</source>
        <translation>
            <numerusform>正在下载 %n 个模型</numerusform>
        </translation>
    </message>
    <message>
        <source>Downloads</source>
        <translation>下载</translation>
    </message>
    <message>
        <source>Draft with it</source>
        <translation>用它起草</translation>
    </message>
    <message>
        <source>EAGLE head</source>
        <translation>EAGLE 头</translation>
    </message>
    <message>
        <source>EAGLE head, looking for more…</source>
        <translation>EAGLE 头，继续查找…</translation>
    </message>
    <message>
        <source>EAGLE heads</source>
        <translation>EAGLE 头</translation>
    </message>
    <message>
        <source>Enter a token…</source>
        <translation>输入令牌…</translation>
    </message>
    <message>
        <source>Expected speed-up</source>
        <translation>预期加速</translation>
    </message>
    <message>
        <source>Family</source>
        <translation>系列</translation>
    </message>
    <message>
        <source>Files</source>
        <translation>文件</translation>
    </message>
    <message>
        <source>Files of the same model in different precisions; one is downloaded</source>
        <translation>同一模型不同精度的文件；只下载其中一个</translation>
    </message>
    <message>
        <source>Files that are downloaded</source>
        <translation>要下载的文件</translation>
    </message>
    <message>
        <source>Fits this machine</source>
        <translation>适合本机</translation>
    </message>
    <message>
        <source>Forget it</source>
        <translation>忘记它</translation>
    </message>
    <message>
        <source>Go on downloading</source>
        <translation>继续下载</translation>
    </message>
    <message>
        <source>Graphics card</source>
        <translation>显卡</translation>
    </message>
    <message>
        <source>Has an EAGLE head</source>
        <translation>有 EAGLE 头</translation>
    </message>
    <message>
        <source>Head</source>
        <translation>头</translation>
    </message>
    <message>
        <source>Heads for this model</source>
        <translation>此模型的头</translation>
    </message>
    <message>
        <source>Hub account</source>
        <translation>模型中心账户</translation>
    </message>
    <message>
        <source>It is being downloaded.</source>
        <translation>正在下载。</translation>
    </message>
    <message>
        <source>It is loaded now: it goes on until it is unloaded, and then it is gone.</source>
        <translation>它现在已加载：会一直可用到被卸载为止，之后就不存在了。</translation>
    </message>
    <message>
        <source>Its download is paused.</source>
        <translation>下载已暂停。</translation>
    </message>
    <message>
        <source>Its download stopped; the reason is below.</source>
        <translation>下载已停止；原因见下方。</translation>
    </message>
    <message>
        <source>Keep it</source>
        <translation>保留</translation>
    </message>
    <message>
        <source>Languages</source>
        <translation>语言</translation>
    </message>
    <message>
        <source>Last updated</source>
        <translation>最近更新</translation>
    </message>
    <message>
        <source>Licence</source>
        <translation>许可证</translation>
    </message>
    <message>
        <source>Lies in</source>
        <translation>位置</translation>
    </message>
    <message>
        <source>Load</source>
        <translation>加载</translation>
    </message>
    <message>
        <source>Looking at it…</source>
        <translation>正在查看…</translation>
    </message>
    <message>
        <source>Looking at this machine…</source>
        <translation>正在查看本机…</translation>
    </message>
    <message numerus="yes">
        <source>Looking for heads of %n more models…</source>
        <translation>
            <numerusform>正在为另外 %n 个模型查找头…</numerusform>
        </translation>
    </message>
    <message>
        <source>Looking…</source>
        <translation>正在查找…</translation>
    </message>
    <message>
        <source>Made for</source>
        <translation>适用于</translation>
    </message>
    <message>
        <source>Make a token…</source>
        <translation>创建令牌…</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>内存</translation>
    </message>
    <message>
        <source>Model card</source>
        <translation>模型卡</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>Models on this computer</source>
        <translation>这台电脑上的模型</translation>
    </message>
    <message>
        <source>More pairs</source>
        <translation>更多组合</translation>
    </message>
    <message>
        <source>Most downloaded</source>
        <translation>下载最多</translation>
    </message>
    <message>
        <source>Most liked</source>
        <translation>点赞最多</translation>
    </message>
    <message>
        <source>Name, or the address of a model's page</source>
        <translation>名称，或模型网页的地址</translation>
    </message>
    <message>
        <source>No NVIDIA GPU was found, so models run on the processor: {free} of {total} memory are free.</source>
        <translation>未找到 NVIDIA GPU，模型在处理器上运行：内存 {total} 中有 {free} 可用。</translation>
    </message>
    <message>
        <source>No head</source>
        <translation>不用头</translation>
    </message>
    <message>
        <source>No model is here yet. Download one, or add a folder or a GGUF file that you have already.</source>
        <translation>这里还没有模型。请下载一个，或添加你已有的文件夹或 GGUF 文件。</translation>
    </message>
    <message>
        <source>No token is set. Free models need none; gated ones need the token of an account that may read them.</source>
        <translation>没有设置令牌。开放的模型不需要；受限的模型需要有权读取的账户的令牌。</translation>
    </message>
    <message>
        <source>None of the first {count} hits passes the filters. Show more, or filter less.</source>
        <translation>前 {count} 个结果都不符合筛选条件。请显示更多，或减少筛选。</translation>
    </message>
    <message>
        <source>Not known yet whether the head fits.</source>
        <translation>尚不知道此头是否适合。</translation>
    </message>
    <message>
        <source>Not logged in</source>
        <translation>未登录</translation>
    </message>
    <message>
        <source>Notes</source>
        <translation>备注</translation>
    </message>
    <message>
        <source>Nothing was found. Try fewer words, or fewer filters.</source>
        <translation>没有找到。请减少词语或筛选条件。</translation>
    </message>
    <message>
        <source>Offline</source>
        <translation>离线</translation>
    </message>
    <message>
        <source>On this computer</source>
        <translation>这台电脑上</translation>
    </message>
    <message>
        <source>Only models for which the catalogue or the hub has a head that fits</source>
        <translation>只显示目录或模型中心有合适头的模型</translation>
    </message>
    <message>
        <source>Open its page</source>
        <translation>打开其网页</translation>
    </message>
    <message>
        <source>Open the page</source>
        <translation>打开网页</translation>
    </message>
    <message>
        <source>Pause</source>
        <translation>暂停</translation>
    </message>
    <message>
        <source>Quantisation</source>
        <translation>量化</translation>
    </message>
    <message>
        <source>Recommended</source>
        <translation>推荐</translation>
    </message>
    <message>
        <source>Recommended for this machine</source>
        <translation>推荐用于本机</translation>
    </message>
    <message>
        <source>Recommended pairs</source>
        <translation>推荐组合</translation>
    </message>
    <message>
        <source>Resume</source>
        <translation>继续</translation>
    </message>
    <message>
        <source>Search results</source>
        <translation>搜索结果</translation>
    </message>
    <message>
        <source>Search the hub</source>
        <translation>搜索模型中心</translation>
    </message>
    <message>
        <source>Searching…</source>
        <translation>正在搜索…</translation>
    </message>
    <message>
        <source>Show more</source>
        <translation>显示更多</translation>
    </message>
    <message>
        <source>Show more search results</source>
        <translation>显示更多搜索结果</translation>
    </message>
    <message>
        <source>Show the downloads</source>
        <translation>显示下载</translation>
    </message>
    <message>
        <source>Size</source>
        <translation>大小</translation>
    </message>
    <message>
        <source>Sort by</source>
        <translation>排序</translation>
    </message>
    <message>
        <source>Start it again</source>
        <translation>重新启动</translation>
    </message>
    <message>
        <source>Take off the list</source>
        <translation>从列表中移除</translation>
    </message>
    <message>
        <source>The card is being read…</source>
        <translation>正在读取模型卡…</translation>
    </message>
    <message>
        <source>The download of {name} is paused.</source>
        <translation>{name} 的下载已暂停。</translation>
    </message>
    <message>
        <source>The download of {name} stopped. {reason}</source>
        <translation>{name} 的下载已停止。{reason}</translation>
    </message>
    <message>
        <source>The files stay where they are</source>
        <translation>文件仍留在原处</translation>
    </message>
    <message>
        <source>The head does not fit this model.</source>
        <translation>此头不适合该模型。</translation>
    </message>
    <message>
        <source>The head fits this model.</source>
        <translation>此头适合该模型。</translation>
    </message>
    <message>
        <source>The head fits, with a caveat.</source>
        <translation>此头适合，但有保留。</translation>
    </message>
    <message>
        <source>The hub account that gated models are read with</source>
        <translation>用于读取受限模型的模型中心账户</translation>
    </message>
    <message>
        <source>The token of the variable HF_TOKEN is used.</source>
        <translation>使用变量 HF_TOKEN 中的令牌。</translation>
    </message>
    <message>
        <source>The token that you entered is used until Eyrie ends. No keyring could keep it.</source>
        <translation>使用你输入的令牌，直到 Eyrie 退出。没有密钥环可以保存它。</translation>
    </message>
    <message>
        <source>The token that you entered is used. The system's keyring keeps it.</source>
        <translation>使用你输入的令牌。它保存在系统密钥环中。</translation>
    </message>
    <message>
        <source>The token that “hf auth login” stored is used.</source>
        <translation>使用“hf auth login”保存的令牌。</translation>
    </message>
    <message>
        <source>There is no model card.</source>
        <translation>没有模型卡。</translation>
    </message>
    <message>
        <source>This frees up to {size}. Other programs that use the hub cache lose it, too.</source>
        <translation>最多可释放 {size}。使用模型中心缓存的其他程序也会失去它。</translation>
    </message>
    <message>
        <source>This head does not fit. Choose another one, or none.</source>
        <translation>此头不适合。请选择其他头，或不用头。</translation>
    </message>
    <message>
        <source>Token refused</source>
        <translation>令牌被拒绝</translation>
    </message>
    <message>
        <source>Token set</source>
        <translation>令牌已设置</translation>
    </message>
    <message>
        <source>Too large for this machine</source>
        <translation>对本机来说太大</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>重试</translation>
    </message>
    <message>
        <source>Type to search. With an empty field the most downloaded models are listed.</source>
        <translation>输入以搜索。留空则列出下载最多的模型。</translation>
    </message>
    <message>
        <source>Up to {size} B</source>
        <translation>最多 {size} B</translation>
    </message>
    <message>
        <source>Updated</source>
        <translation>更新于</translation>
    </message>
    <message>
        <source>Use the chosen model as draft model for the loaded one; both need the same vocabulary</source>
        <translation>将所选模型用作已加载模型的草稿模型；两者的词表必须相同</translation>
    </message>
    <message>
        <source>Use this token</source>
        <translation>使用此令牌</translation>
    </message>
    <message>
        <source>about {size} on disk</source>
        <translation>磁盘上约 {size}</translation>
    </message>
    <message>
        <source>asking the hub which files there are…</source>
        <translation>正在向模型中心询问文件列表…</translation>
    </message>
    <message>
        <source>caveat</source>
        <translation>有保留</translation>
    </message>
    <message>
        <source>checking the checksum</source>
        <translation>正在核对校验和</translation>
    </message>
    <message>
        <source>does not fit</source>
        <translation>不适合</translation>
    </message>
    <message numerus="yes">
        <source>drafts {count} tokens</source>
        <translation>
            <numerusform>可起草 {count} 个词元</numerusform>
        </translation>
    </message>
    <message>
        <source>fits</source>
        <translation>适合</translation>
    </message>
    <message>
        <source>hub cache</source>
        <translation>模型中心缓存</translation>
    </message>
    <message>
        <source>in the catalogue</source>
        <translation>在目录中</translation>
    </message>
    <message>
        <source>its card does not tell</source>
        <translation>其模型卡未说明</translation>
    </message>
    <message>
        <source>licence on its page</source>
        <translation>许可证见其网页</translation>
    </message>
    <message>
        <source>made for {model}</source>
        <translation>适用于 {model}</translation>
    </message>
    <message>
        <source>more than 24 GB</source>
        <translation>超过 24 GB</translation>
    </message>
    <message>
        <source>no room on the disk</source>
        <translation>磁盘空间不足</translation>
    </message>
    <message>
        <source>no speed-up published</source>
        <translation>未公布加速</translation>
    </message>
    <message>
        <source>none was published</source>
        <translation>未公布</translation>
    </message>
    <message>
        <source>not checked</source>
        <translation>未检查</translation>
    </message>
    <message>
        <source>nothing arrives at the moment</source>
        <translation>目前没有数据到达</translation>
    </message>
    <message>
        <source>on this computer</source>
        <translation>在这台电脑上</translation>
    </message>
    <message>
        <source>paused</source>
        <translation>已暂停</translation>
    </message>
    <message>
        <source>plain decoding, one token at a time</source>
        <translation>普通解码，一次一个词元</translation>
    </message>
    <message>
        <source>ready</source>
        <translation>就绪</translation>
    </message>
    <message>
        <source>size unknown</source>
        <translation>大小未知</translation>
    </message>
    <message>
        <source>stopped</source>
        <translation>已停止</translation>
    </message>
    <message>
        <source>tight</source>
        <translation>紧张</translation>
    </message>
    <message>
        <source>too large</source>
        <translation>太大</translation>
    </message>
    <message>
        <source>up to {factor}× published</source>
        <translation>公布的加速最高 {factor} 倍</translation>
    </message>
    <message>
        <source>waiting for its turn</source>
        <translation>排队中</translation>
    </message>
    <message>
        <source>{action}: {name}</source>
        <translation>{action}：{name}</translation>
    </message>
    <message numerus="yes">
        <source>{count} bytes</source>
        <translation>
            <numerusform>{count} 字节</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} downloads</source>
        <translation>
            <numerusform>{count} 次下载</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} likes</source>
        <translation>
            <numerusform>{count} 个赞</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} tokens</source>
        <translation>
            <numerusform>{count} 个词元</numerusform>
        </translation>
    </message>
    <message>
        <source>{device}: {free} of {total} memory are free.</source>
        <translation>{device}：内存 {total} 中有 {free} 可用。</translation>
    </message>
    <message>
        <source>{done} of {total}</source>
        <translation>{done} / {total}</translation>
    </message>
    <message>
        <source>{downloads}, {share}</source>
        <translation>{downloads}，{share}</translation>
    </message>
    <message>
        <source>{factor}× ({source})</source>
        <translation>{factor} 倍（{source}）</translation>
    </message>
    <message>
        <source>{file}:  {done} of {size}</source>
        <translation>{file}：{done} / {size}</translation>
    </message>
    <message>
        <source>{file}:  {size}, here</source>
        <translation>{file}：{size}，已在本机</translation>
    </message>
    <message>
        <source>{hours} h {minutes} min left</source>
        <translation>剩余 {hours} 小时 {minutes} 分钟</translation>
    </message>
    <message>
        <source>{licence}, gated</source>
        <translation>{licence}，受限</translation>
    </message>
    <message>
        <source>{minutes} min left</source>
        <translation>剩余 {minutes} 分钟</translation>
    </message>
    <message>
        <source>{model}  (has a head)</source>
        <translation>{model}（有头）</translation>
    </message>
    <message>
        <source>{name} is downloaded.</source>
        <translation>{name} 已下载。</translation>
    </message>
    <message>
        <source>{name}:  {value}</source>
        <translation>{name}：{value}</translation>
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
        <translation>{parts}。仅按大小估计。</translation>
    </message>
    <message>
        <source>{parts}. Reckoned from the tensors.</source>
        <translation>{parts}。按张量计算。</translation>
    </message>
    <message>
        <source>{seconds} s left</source>
        <translation>剩余 {seconds} 秒</translation>
    </message>
    <message>
        <source>{size}   in all</source>
        <translation>{size}   总计</translation>
    </message>
    <message>
        <source>{size} GB</source>
        <translation>{size} GB</translation>
    </message>
    <message>
        <source>{size} GB, tight</source>
        <translation>{size} GB，紧张</translation>
    </message>
    <message numerus="yes">
        <source>{size} for {count} tokens</source>
        <translation>
            <numerusform>{size} 用于 {count} 个词元</numerusform>
        </translation>
    </message>
    <message>
        <source>{size} free on the disk</source>
        <translation>磁盘剩余 {size}</translation>
    </message>
    <message>
        <source>{size} have arrived. Kept, they need not be fetched again later.</source>
        <translation>已下载 {size}。保留下来，以后就不必重新下载。</translation>
    </message>
    <message>
        <source>{size} head</source>
        <translation>头 {size}</translation>
    </message>
    <message>
        <source>{size} on disk</source>
        <translation>磁盘上 {size}</translation>
    </message>
    <message>
        <source>{size} weights in {format}</source>
        <translation>{format} 权重 {size}</translation>
    </message>
    <message>
        <source>{size} workspace</source>
        <translation>工作区 {size}</translation>
    </message>
    <message>
        <source>{size}/s</source>
        <translation>{size}/s</translation>
    </message>
</context>
<context>
    <name>Instructions</name>
    <message>
        <source>&amp;System prompt</source>
        <translation>系统提示(&amp;S)</translation>
    </message>
    <message>
        <source>Choose a preset…</source>
        <translation>选择预设…</translation>
    </message>
    <message>
        <source>Clear</source>
        <translation>清除</translation>
    </message>
    <message>
        <source>Delete preset</source>
        <translation>删除预设</translation>
    </message>
    <message>
        <source>Name of the preset:</source>
        <translation>预设名称：</translation>
    </message>
    <message>
        <source>Preset</source>
        <translation>预设</translation>
    </message>
    <message>
        <source>Save as preset</source>
        <translation>保存为预设</translation>
    </message>
    <message>
        <source>Save as preset…</source>
        <translation>保存为预设…</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>系统提示</translation>
    </message>
    <message>
        <source>System prompt and settings of this chat</source>
        <translation>此聊天的系统提示和设置</translation>
    </message>
    <message>
        <source>What the model is told before the conversation, for instance its role.</source>
        <translation>对话开始前告诉模型的内容，例如它的角色。</translation>
    </message>
</context>
<context>
    <name>Licence</name>
    <message>
        <source>I understand</source>
        <translation>我明白了</translation>
    </message>
    <message>
        <source>Licence</source>
        <translation>许可证</translation>
    </message>
    <message>
        <source>Licence text</source>
        <translation>许可证全文</translation>
    </message>
    <message>
        <source>Model licence</source>
        <translation>模型许可证</translation>
    </message>
    <message>
        <source>{model} is used under these terms.</source>
        <translation>{model} 按以下条款使用。</translation>
    </message>
</context>
<context>
    <name>Link</name>
    <message>
        <source>Copy the address</source>
        <translation>复制地址</translation>
    </message>
    <message>
        <source>Eyrie opens web pages and mail addresses only. You can copy the address.</source>
        <translation>Eyrie 只打开网页和邮件地址。你可以复制该地址。</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>打开</translation>
    </message>
    <message>
        <source>Open this address?</source>
        <translation>打开此地址？</translation>
    </message>
    <message>
        <source>The model wrote this address. Open it only if you trust where it goes.</source>
        <translation>此地址由模型写出。只有在信任其去向时才打开。</translation>
    </message>
    <message>
        <source>This address is not opened</source>
        <translation>此地址不会被打开</translation>
    </message>
    <message>
        <source>{beginning}… ({count} characters)</source>
        <translation>{beginning}…（{count} 个字符）</translation>
    </message>
</context>
<context>
    <name>Loading</name>
    <message>
        <source>4 bits (NF4), on a GPU</source>
        <translation>4 位 (NF4)，用于 GPU</translation>
    </message>
    <message>
        <source>8 bits, on a processor</source>
        <translation>8 位，用于处理器</translation>
    </message>
    <message>
        <source>A smaller model with the same vocabulary, for the method of that name.</source>
        <translation>词表相同的较小模型，供同名方法使用。</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>自动</translation>
    </message>
    <message>
        <source>Choose the folder of a draft model</source>
        <translation>选择草稿模型的文件夹</translation>
    </message>
    <message>
        <source>Choose the folder of a smaller model</source>
        <translation>选择较小模型的文件夹</translation>
    </message>
    <message>
        <source>Choose…</source>
        <translation>选择…</translation>
    </message>
    <message>
        <source>Context (tokens)</source>
        <translation>上下文（词元）</translation>
    </message>
    <message>
        <source>Draft model</source>
        <translation>草稿模型</translation>
    </message>
    <message>
        <source>How long a chat can get. A longer one needs more memory.</source>
        <translation>聊天最长可达多少。越长需要的内存越多。</translation>
    </message>
    <message>
        <source>Loading</source>
        <translation>加载</translation>
    </message>
    <message>
        <source>NF4 becomes 8 % smaller and a little slower.</source>
        <translation>NF4 会小 8%，并稍慢一些。</translation>
    </message>
    <message>
        <source>No draft model</source>
        <translation>不用草稿模型</translation>
    </message>
    <message>
        <source>None</source>
        <translation>无</translation>
    </message>
    <message>
        <source>Of files that are not quantised yet.</source>
        <translation>针对尚未量化的文件。</translation>
    </message>
    <message>
        <source>Quantise the scales, too</source>
        <translation>同时量化缩放系数</translation>
    </message>
    <message>
        <source>The model is loaded again when something changes here.</source>
        <translation>此处有改动时会重新加载模型。</translation>
    </message>
    <message>
        <source>Weights</source>
        <translation>权重</translation>
    </message>
</context>
<context>
    <name>Menu</name>
    <message>
        <source>&amp;About Eyrie</source>
        <translation>关于 Eyrie(&amp;A)</translation>
    </message>
    <message>
        <source>&amp;Chat</source>
        <translation>聊天(&amp;C)</translation>
    </message>
    <message>
        <source>&amp;Chats</source>
        <translation>聊天(&amp;C)</translation>
    </message>
    <message>
        <source>&amp;Copy diagnostics</source>
        <translation>复制诊断信息(&amp;C)</translation>
    </message>
    <message>
        <source>&amp;Copy the last reply</source>
        <translation>复制上一条回复(&amp;C)</translation>
    </message>
    <message>
        <source>&amp;Draft tree</source>
        <translation>草稿树(&amp;D)</translation>
    </message>
    <message>
        <source>&amp;EAGLE</source>
        <translation>EAGLE(&amp;E)</translation>
    </message>
    <message>
        <source>&amp;Edit the last prompt</source>
        <translation>编辑上一条提示(&amp;E)</translation>
    </message>
    <message>
        <source>&amp;File</source>
        <translation>文件(&amp;F)</translation>
    </message>
    <message>
        <source>&amp;Find a command…</source>
        <translation>查找命令(&amp;F)…</translation>
    </message>
    <message>
        <source>&amp;Free the GPU</source>
        <translation>释放 GPU(&amp;F)</translation>
    </message>
    <message>
        <source>&amp;Go to the prompt</source>
        <translation>转到输入框(&amp;G)</translation>
    </message>
    <message>
        <source>&amp;Help</source>
        <translation>帮助(&amp;H)</translation>
    </message>
    <message>
        <source>&amp;Import chats…</source>
        <translation>导入聊天(&amp;I)…</translation>
    </message>
    <message>
        <source>&amp;Keyboard shortcuts</source>
        <translation>键盘快捷键(&amp;K)</translation>
    </message>
    <message>
        <source>&amp;Larger text</source>
        <translation>放大文字(&amp;L)</translation>
    </message>
    <message>
        <source>&amp;Load the model</source>
        <translation>加载模型(&amp;L)</translation>
    </message>
    <message>
        <source>&amp;Mark accepted draft tokens</source>
        <translation>标记被接受的草稿词元(&amp;M)</translation>
    </message>
    <message>
        <source>&amp;Model</source>
        <translation>模型(&amp;M)</translation>
    </message>
    <message>
        <source>&amp;Models…</source>
        <translation>模型(&amp;M)…</translation>
    </message>
    <message>
        <source>&amp;New chat</source>
        <translation>新聊天(&amp;N)</translation>
    </message>
    <message>
        <source>&amp;Normal text size</source>
        <translation>正常文字大小(&amp;N)</translation>
    </message>
    <message>
        <source>&amp;Previous chat</source>
        <translation>上一个聊天(&amp;P)</translation>
    </message>
    <message>
        <source>&amp;Quit</source>
        <translation>退出(&amp;Q)</translation>
    </message>
    <message>
        <source>&amp;Restart the engine</source>
        <translation>重新启动引擎(&amp;R)</translation>
    </message>
    <message>
        <source>&amp;Settings for this model…</source>
        <translation>此模型的设置(&amp;S)…</translation>
    </message>
    <message>
        <source>&amp;Settings…</source>
        <translation>设置(&amp;S)…</translation>
    </message>
    <message>
        <source>&amp;Smaller text</source>
        <translation>缩小文字(&amp;S)</translation>
    </message>
    <message>
        <source>&amp;Stop the reply</source>
        <translation>停止回复(&amp;S)</translation>
    </message>
    <message>
        <source>&amp;Tour of the window</source>
        <translation>窗口导览(&amp;T)</translation>
    </message>
    <message>
        <source>&amp;Undo deleting a chat</source>
        <translation>撤销删除聊天(&amp;U)</translation>
    </message>
    <message>
        <source>&amp;View</source>
        <translation>视图(&amp;V)</translation>
    </message>
    <message>
        <source>&amp;Write the last reply again</source>
        <translation>重写上一条回复(&amp;W)</translation>
    </message>
    <message>
        <source>C&amp;ompare two settings…</source>
        <translation>对比两种设置(&amp;O)…</translation>
    </message>
    <message>
        <source>Cancel loa&amp;ding</source>
        <translation>取消加载(&amp;D)</translation>
    </message>
    <message>
        <source>Comp&amp;arisons of this chat…</source>
        <translation>此聊天的对比(&amp;A)…</translation>
    </message>
    <message>
        <source>Con&amp;tinue the last reply</source>
        <translation>续写上一条回复(&amp;T)</translation>
    </message>
    <message>
        <source>Copy the chat as &amp;Markdown</source>
        <translation>将聊天复制为 Markdown(&amp;M)</translation>
    </message>
    <message>
        <source>Export &amp;all chats…</source>
        <translation>导出所有聊天(&amp;A)…</translation>
    </message>
    <message>
        <source>Find, download and load models and heads</source>
        <translation>查找、下载并加载模型和头</translation>
    </message>
    <message>
        <source>Model l&amp;icence…</source>
        <translation>模型许可证(&amp;I)…</translation>
    </message>
    <message>
        <source>Ne&amp;xt chat</source>
        <translation>下一个聊天(&amp;X)</translation>
    </message>
    <message>
        <source>Run two settings side by side: EAGLE on and off, methods, heads</source>
        <translation>并排运行两种设置：EAGLE 开与关、不同方法、不同头</translation>
    </message>
    <message>
        <source>Searc&amp;h chats</source>
        <translation>搜索聊天(&amp;H)</translation>
    </message>
    <message>
        <source>Show or hide the chats</source>
        <translation>显示或隐藏聊天</translation>
    </message>
    <message>
        <source>Show or hide the draft tree</source>
        <translation>显示或隐藏草稿树</translation>
    </message>
    <message>
        <source>Unload the model and give its memory back</source>
        <translation>卸载模型并释放内存</translation>
    </message>
    <message>
        <source>Version &amp;before</source>
        <translation>上一个版本(&amp;B)</translation>
    </message>
    <message>
        <source>Version a&amp;fter</source>
        <translation>下一个版本(&amp;F)</translation>
    </message>
</context>
<context>
    <name>Methods</name>
    <message>
        <source>Automatic ({method})</source>
        <translation>自动（{method}）</translation>
    </message>
    <message>
        <source>Choose the drafting method</source>
        <translation>选择起草方法</translation>
    </message>
    <message>
        <source>Draftin&amp;g method</source>
        <translation>起草方法(&amp;G)</translation>
    </message>
    <message>
        <source>{method} – not available</source>
        <translation>{method} – 不可用</translation>
    </message>
</context>
<context>
    <name>Model settings</name>
    <message>
        <source>Answer at once</source>
        <translation>直接回答</translation>
    </message>
    <message>
        <source>As the model does</source>
        <translation>由模型决定</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>自动</translation>
    </message>
    <message>
        <source>Changes the distribution: the reply no longer follows the model's own.</source>
        <translation>会改变分布：回复不再遵循模型自身的分布。</translation>
    </message>
    <message>
        <source>Default ({value})</source>
        <translation>默认（{value}）</translation>
    </message>
    <message>
        <source>Drafting</source>
        <translation>起草</translation>
    </message>
    <message>
        <source>Drafting method</source>
        <translation>起草方法</translation>
    </message>
    <message>
        <source>For chats that have none of their own</source>
        <translation>用于没有自己系统提示的聊天</translation>
    </message>
    <message>
        <source>On</source>
        <translation>开</translation>
    </message>
    <message>
        <source>Replies</source>
        <translation>回复</translation>
    </message>
    <message>
        <source>Settings for this model</source>
        <translation>此模型的设置</translation>
    </message>
    <message>
        <source>System prompt</source>
        <translation>系统提示</translation>
    </message>
    <message>
        <source>System prompt for chats that have none of their own</source>
        <translation>没有自己系统提示的聊天所用的系统提示</translation>
    </message>
    <message>
        <source>The method that suits this model, with what the engine measured.</source>
        <translation>适合此模型的方法，按引擎的测量调整。</translation>
    </message>
    <message>
        <source>Think first</source>
        <translation>先思考</translation>
    </message>
    <message>
        <source>Thinking</source>
        <translation>思考</translation>
    </message>
    <message>
        <source>What is set here wins over the settings; what a chat has its own way wins over this.</source>
        <translation>此处的设置优先于全局设置；聊天自己的设置又优先于此处。</translation>
    </message>
    <message>
        <source>lossless</source>
        <translation>无损</translation>
    </message>
    <message>
        <source>off</source>
        <translation>关</translation>
    </message>
    <message>
        <source>on</source>
        <translation>开</translation>
    </message>
    <message>
        <source>typical</source>
        <translation>典型</translation>
    </message>
    <message>
        <source>{setting}: default</source>
        <translation>{setting}：默认</translation>
    </message>
</context>
<context>
    <name>Notices</name>
    <message>
        <source>Cancel</source>
        <translation>取消</translation>
    </message>
    <message>
        <source>Cancel loading</source>
        <translation>取消加载</translation>
    </message>
    <message>
        <source>Cancel the export or import</source>
        <translation>取消导出或导入</translation>
    </message>
    <message>
        <source>Copy details</source>
        <translation>复制详情</translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation>忽略</translation>
    </message>
    <message>
        <source>EAGLE is not available. {why}</source>
        <translation>EAGLE 不可用。{why}</translation>
    </message>
    <message>
        <source>Eyrie did not end properly last time.</source>
        <translation>上次 Eyrie 没有正常退出。</translation>
    </message>
    <message>
        <source>Load the model</source>
        <translation>加载模型</translation>
    </message>
    <message>
        <source>Loading progress</source>
        <translation>加载进度</translation>
    </message>
    <message>
        <source>No EAGLE head is loaded for this model, so replies are decoded one token at a time.</source>
        <translation>此模型没有加载 EAGLE 头，因此回复逐个词元解码。</translation>
    </message>
    <message>
        <source>No details are known.</source>
        <translation>没有更多详情。</translation>
    </message>
    <message>
        <source>Progress of the export or import</source>
        <translation>导出或导入的进度</translation>
    </message>
    <message>
        <source>Restart engine</source>
        <translation>重新启动引擎</translation>
    </message>
    <message>
        <source>Show the downloads</source>
        <translation>显示下载</translation>
    </message>
    <message>
        <source>Something unexpected went wrong: {kind}.</source>
        <translation>发生意外错误：{kind}。</translation>
    </message>
    <message>
        <source>Starting the engine…</source>
        <translation>正在启动引擎…</translation>
    </message>
    <message>
        <source>This is a tiny demo model. It shows how speculative decoding works, but it makes things up: do not rely on its answers. Better models come from the model hub.</source>
        <translation>这是一个很小的演示模型。它展示投机解码如何工作，但会编造内容：请勿依赖它的回答。更好的模型来自模型中心。</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>重试</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>撤销</translation>
    </message>
    <message>
        <source>What was received is kept.</source>
        <translation>已收到的内容会保留。</translation>
    </message>
    <message>
        <source>You can go on; the log has the details.</source>
        <translation>可以继续使用；详情见日志。</translation>
    </message>
</context>
<context>
    <name>Panel</name>
    <message numerus="yes">
        <source>%n guesses</source>
        <translation>
            <numerusform>%n 个猜测</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n levels</source>
        <translation>
            <numerusform>%n 层</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n passes ago</source>
        <translation>
            <numerusform>%n 次前向之前</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n places</source>
        <translation>
            <numerusform>%n 个位置</numerusform>
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
            <numerusform>%n 步</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n tokens</source>
        <translation>
            <numerusform>%n 个词元</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n tokens earlier</source>
        <translation>
            <numerusform>%n 个词元之前</numerusform>
        </translation>
    </message>
    <message>
        <source>, more than any other token</source>
        <translation>，高于任何其他词元</translation>
    </message>
    <message>
        <source>, number {rank} of all tokens</source>
        <translation>，在所有词元中排第 {rank}</translation>
    </message>
    <message>
        <source>, number {rank} of all {count}</source>
        <translation>，在全部 {count} 个中排第 {rank}</translation>
    </message>
    <message>
        <source>, number {rank} of its {count} guesses here</source>
        <translation>，在此处的 {count} 个猜测中排第 {rank}</translation>
    </message>
    <message>
        <source>A guess that follows a rejected one, so it was never looked at.</source>
        <translation>跟在被拒绝的猜测之后，因此从未被检查。</translation>
    </message>
    <message>
        <source>A guess that the target confirmed: a token for free.</source>
        <translation>被目标模型确认的猜测：白得一个词元。</translation>
    </message>
    <message>
        <source>A guess where the target chose another token.</source>
        <translation>目标模型在此选了别的词元。</translation>
    </message>
    <message>
        <source>A language model writes one token (a word or a piece of one) at a time, and each token costs a pass through the whole model, here called the target. It is like a careful author who reads the whole text again before every word.</source>
        <translation>语言模型一次写一个词元（一个词或词的一部分），每个词元都要把整个模型（这里称为目标模型）运行一遍。就像一位谨慎的作者，每写一个词之前都把全文重读一遍。</translation>
    </message>
    <message>
        <source>A quick helper guesses how the text goes on, one token after the other. That is the row, read from left to right. The target then checks all guesses in a single pass. It keeps them up to the first one it disagrees with, and puts a token of its own in that place, the bonus token. What follows a wrong guess is thrown away.</source>
        <translation>一个快速的助手逐个猜测文本如何继续，这就是从左到右的那一行。然后目标模型在一次前向中检查所有猜测，保留到第一个不同意的为止，并在那里放上自己的词元，即奖励词元。错误猜测之后的内容被丢弃。</translation>
    </message>
    <message>
        <source>A small, quick helper guesses several ways the text may go on. That is the tree, read from left to right: the thicker a line, the surer the guess. The target then checks all guesses in a single pass. It keeps the longest path it agrees with (the straight line at the top) and adds one token of its own, the bonus token. Everything else is thrown away.</source>
        <translation>一个小而快的助手猜测文本可能的几种走向，这就是从左到右的树：线越粗，猜测越有把握。然后目标模型在一次前向中检查所有猜测，保留它同意的最长路径（最上方的直线），再加上自己的一个词元，即奖励词元。其余全部丢弃。</translation>
    </message>
    <message>
        <source>Acceptance by depth</source>
        <translation>各深度的接受率</translation>
    </message>
    <message>
        <source>Acceptance length: tokens emitted per pass of the target so far, the bonus token included. Without guessing it is 1.</source>
        <translation>接受长度：到目前为止目标模型每次前向输出的词元数，含奖励词元。不猜测时为 1。</translation>
    </message>
    <message>
        <source>Accepted</source>
        <translation>接受</translation>
    </message>
    <message>
        <source>Accepted: the target chose this token too</source>
        <translation>接受：目标模型也选了这个词元</translation>
    </message>
    <message>
        <source>All steps as JSON…</source>
        <translation>所有步骤存为 JSON…</translation>
    </message>
    <message>
        <source>All steps as an animated GIF…</source>
        <translation>所有步骤存为 GIF 动画…</translation>
    </message>
    <message>
        <source>Already chosen in the step before; the guesses start from it.</source>
        <translation>上一步已选出；猜测从它开始。</translation>
    </message>
    <message>
        <source>An animation holds {most} steps at most; the reply has {total}.</source>
        <translation>动画最多容纳 {most} 步；此回复有 {total} 步。</translation>
    </message>
    <message>
        <source>At step {step}: {notice}</source>
        <translation>第 {step} 步：{notice}</translation>
    </message>
    <message>
        <source>Beside them a window of {rows} over {places}.</source>
        <translation>旁边是 {places} 上的 {rows} 窗口。</translation>
    </message>
    <message>
        <source>Bonus</source>
        <translation>奖励</translation>
    </message>
    <message>
        <source>Bonus token</source>
        <translation>奖励词元</translation>
    </message>
    <message>
        <source>Bonus token: chosen by the target itself, root of the next step</source>
        <translation>奖励词元：由目标模型自己选出，是下一步的根</translation>
    </message>
    <message>
        <source>Bonus token: chosen by the target itself. It ends the step and is the next root.</source>
        <translation>奖励词元：由目标模型自己选出。它结束这一步，并成为下一个根。</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>取消</translation>
    </message>
    <message>
        <source>Cancelled. Nothing was written.</source>
        <translation>已取消。没有写入任何内容。</translation>
    </message>
    <message>
        <source>Choose another file or folder.</source>
        <translation>请选择其他文件或文件夹。</translation>
    </message>
    <message>
        <source>Choose another folder.</source>
        <translation>请选择其他文件夹。</translation>
    </message>
    <message>
        <source>Chosen by the target</source>
        <translation>由目标模型选出</translation>
    </message>
    <message>
        <source>Chosen: no guessing, because it would be slower now.</source>
        <translation>选择：不猜测，因为目前会更慢。</translation>
    </message>
    <message>
        <source>Chosen: {rows}, {levels}.</source>
        <translation>选择：{rows}，{levels}。</translation>
    </message>
    <message>
        <source>Copy</source>
        <translation>复制</translation>
    </message>
    <message>
        <source>Copy the selected rows, or the whole table</source>
        <translation>复制所选行，或整个表格</translation>
    </message>
    <message>
        <source>Decode speed so far, in tokens per second; the time to read the prompt is left out. In brackets: the last 2 seconds.</source>
        <translation>到目前为止的解码速度，每秒词元数；不含读取提示的时间。括号内：最近 2 秒。</translation>
    </message>
    <message>
        <source>Depth</source>
        <translation>深度</translation>
    </message>
    <message>
        <source>Depth {depth}: accepted in {accepted} of {steps} that guessed this far ({share} %)</source>
        <translation>深度 {depth}：猜到此处的 {steps} 步中有 {accepted} 步被接受（{share}%）</translation>
    </message>
    <message>
        <source>Dismiss</source>
        <translation>忽略</translation>
    </message>
    <message>
        <source>Draft</source>
        <translation>草稿</translation>
    </message>
    <message>
        <source>Draft rank</source>
        <translation>草稿排名</translation>
    </message>
    <message>
        <source>Draft tree</source>
        <translation>草稿树</translation>
    </message>
    <message>
        <source>Draft tree as a table</source>
        <translation>以表格显示的草稿树</translation>
    </message>
    <message>
        <source>Draft tree panel</source>
        <translation>草稿树面板</translation>
    </message>
    <message>
        <source>Enter shows a token in the text</source>
        <translation>按 Enter 在文本中显示词元</translation>
    </message>
    <message>
        <source>Expected on this machine, by rows that the target checks in one pass:</source>
        <translation>本机的预期速度，按目标模型一次前向检查的行数：</translation>
    </message>
    <message>
        <source>Export</source>
        <translation>导出</translation>
    </message>
    <message>
        <source>Export…</source>
        <translation>导出…</translation>
    </message>
    <message>
        <source>First step (Home)</source>
        <translation>第一步 (Home)</translation>
    </message>
    <message>
        <source>Fit</source>
        <translation>适应</translation>
    </message>
    <message>
        <source>Fit the whole tree into the view</source>
        <translation>让整棵树适应视图</translation>
    </message>
    <message>
        <source>Follow the reply again (Space)</source>
        <translation>重新跟随回复 (空格)</translation>
    </message>
    <message>
        <source>Follows</source>
        <translation>接在</translation>
    </message>
    <message>
        <source>Free some space, or choose another disk.</source>
        <translation>请腾出空间，或选择其他磁盘。</translation>
    </message>
    <message>
        <source>Guesses that the target confirmed, of all guesses so far. Only one path of a tree can be accepted, so the share is low even when guessing does well.</source>
        <translation>到目前为止所有猜测中被目标模型确认的部分。一棵树只能接受一条路径，因此即使猜得好，比例也不高。</translation>
    </message>
    <message>
        <source>Guesses, checked in this pass</source>
        <translation>本次前向检查的猜测</translation>
    </message>
    <message>
        <source>Guessing is off: one token per step. There is nothing to draw; the timeline below still shows every step.</source>
        <translation>猜测已关闭：每步一个词元。没有可画的内容；下方时间线仍显示每一步。</translation>
    </message>
    <message>
        <source>Last step (End)</source>
        <translation>最后一步 (End)</translation>
    </message>
    <message>
        <source>Legend of the draft tree</source>
        <translation>草稿树图例</translation>
    </message>
    <message>
        <source>Live</source>
        <translation>实时</translation>
    </message>
    <message>
        <source>Live +{count}</source>
        <translation>实时 +{count}</translation>
    </message>
    <message>
        <source>No reply yet.
Send a message, and the guesses behind every token grow here.</source>
        <translation>还没有回复。
发送一条消息，每个词元背后的猜测就会在这里生长。</translation>
    </message>
    <message>
        <source>No steps yet</source>
        <translation>还没有步骤</translation>
    </message>
    <message>
        <source>Not a guess yet: the target works these out on the side, to find the next guesses.</source>
        <translation>还不是猜测：目标模型顺带算出这些，用来寻找下一批猜测。</translation>
    </message>
    <message>
        <source>Not reached</source>
        <translation>未到达</translation>
    </message>
    <message>
        <source>Not reached: a guess before it was rejected</source>
        <translation>未到达：之前的猜测被拒绝</translation>
    </message>
    <message>
        <source>Nothing has been guessed yet.</source>
        <translation>还没有任何猜测。</translation>
    </message>
    <message>
        <source>Nothing has been measured yet.</source>
        <translation>还没有任何测量。</translation>
    </message>
    <message>
        <source>Nothing may be written into the folder “{folder}”.</source>
        <translation>不能写入文件夹“{folder}”。</translation>
    </message>
    <message>
        <source>Nothing was guessed in this step.</source>
        <translation>这一步没有猜测。</translation>
    </message>
    <message>
        <source>One exception: with “typical acceptance” the target also keeps guesses that it would not have chosen itself. That setting is off unless you choose it.</source>
        <translation>有一个例外：使用“典型接受”时，目标模型也会保留自己不会选择的猜测。除非你选择，否则此设置是关闭的。</translation>
    </message>
    <message>
        <source>One step back (Left)</source>
        <translation>后退一步 (左)</translation>
    </message>
    <message>
        <source>One step forward (Right)</source>
        <translation>前进一步 (右)</translation>
    </message>
    <message>
        <source>Over the last 2 seconds: τ {tau}, {speed} tokens per second</source>
        <translation>最近 2 秒：τ {tau}，每秒 {speed} 个词元</translation>
    </message>
    <message>
        <source>Pause (Space)</source>
        <translation>暂停 (空格)</translation>
    </message>
    <message>
        <source>Picture</source>
        <translation>图片</translation>
    </message>
    <message>
        <source>Progress of the export</source>
        <translation>导出进度</translation>
    </message>
    <message>
        <source>Prompt pass</source>
        <translation>提示前向</translation>
    </message>
    <message>
        <source>Prompt pass, then {steps}</source>
        <translation>提示前向，然后 {steps}</translation>
    </message>
    <message>
        <source>Prompt pass: the target read the prompt and chose the first token, {tokens}.</source>
        <translation>提示前向：目标模型读取提示并选出首个词元 {tokens}。</translation>
    </message>
    <message>
        <source>Reading the prompt…</source>
        <translation>正在读取提示…</translation>
    </message>
    <message>
        <source>Rejected</source>
        <translation>拒绝</translation>
    </message>
    <message>
        <source>Rejected: the target chose another token here</source>
        <translation>拒绝：目标模型在此选了别的词元</translation>
    </message>
    <message>
        <source>Rejected: the target chose {token} here</source>
        <translation>拒绝：目标模型在此选了 {token}</translation>
    </message>
    <message>
        <source>Root</source>
        <translation>根</translation>
    </message>
    <message>
        <source>Root: chosen by the target in the step before</source>
        <translation>根：目标模型在上一步选出</translation>
    </message>
    <message>
        <source>Save this step or all steps as a file</source>
        <translation>将这一步或所有步骤存为文件</translation>
    </message>
    <message>
        <source>Saved as {path}.</source>
        <translation>已保存为 {path}。</translation>
    </message>
    <message>
        <source>Scroll the panel</source>
        <translation>滚动面板</translation>
    </message>
    <message>
        <source>Scroll the tree sideways</source>
        <translation>左右滚动树</translation>
    </message>
    <message>
        <source>Scroll the tree up and down</source>
        <translation>上下滚动树</translation>
    </message>
    <message>
        <source>Show the step as a picture</source>
        <translation>以图形显示这一步</translation>
    </message>
    <message>
        <source>Show the step as a table</source>
        <translation>以表格显示这一步</translation>
    </message>
    <message>
        <source>Since step {step}: {notice}</source>
        <translation>自第 {step} 步起：{notice}</translation>
    </message>
    <message>
        <source>So one pass can give several tokens, and the target still decides every one of them: wrong guesses cost a little time, never quality. τ (tau) is how many tokens a pass gave on average; without guessing it is 1.</source>
        <translation>因此一次前向可以得到多个词元，而每一个仍由目标模型决定：猜错只费一点时间，绝不影响质量。τ (tau) 是平均每次前向得到的词元数；不猜测时为 1。</translation>
    </message>
    <message>
        <source>Speed by size</source>
        <translation>速度与大小</translation>
    </message>
    <message>
        <source>Step of the reply</source>
        <translation>回复的步骤</translation>
    </message>
    <message>
        <source>Step {step}</source>
        <translation>第 {step} 步</translation>
    </message>
    <message>
        <source>Step {step} of {last}</source>
        <translation>第 {step} / {last} 步</translation>
    </message>
    <message>
        <source>Step {step}, plain decoding: the target chose {tokens}.</source>
        <translation>第 {step} 步，普通解码：目标模型选了 {tokens}。</translation>
    </message>
    <message>
        <source>Step {step}: {accepted} of {guesses} accepted, {count} emitted: {tokens}.</source>
        <translation>第 {step} 步：{guesses} 中接受 {accepted}，输出 {count}：{tokens}。</translation>
    </message>
    <message>
        <source>Table</source>
        <translation>表格</translation>
    </message>
    <message>
        <source>Target</source>
        <translation>目标模型</translation>
    </message>
    <message>
        <source>Target rank</source>
        <translation>目标模型排名</translation>
    </message>
    <message>
        <source>Target token</source>
        <translation>目标模型词元</translation>
    </message>
    <message>
        <source>The course of a reply appears here.</source>
        <translation>回复的过程显示在这里。</translation>
    </message>
    <message>
        <source>The draft gave it {percent}</source>
        <translation>草稿给它 {percent}</translation>
    </message>
    <message>
        <source>The file could not be made: {reason}.</source>
        <translation>无法生成文件：{reason}。</translation>
    </message>
    <message>
        <source>The guesses of this early step were given up to save memory; its token and figures are kept.</source>
        <translation>为节省内存，这一早期步骤的猜测已舍弃；其词元和数字仍保留。</translation>
    </message>
    <message>
        <source>The helper at work is called {name}. {about}</source>
        <translation>正在工作的助手叫 {name}。{about}</translation>
    </message>
    <message numerus="yes">
        <source>The last %n steps up to here as an animated GIF…</source>
        <translation>
            <numerusform>到此为止的最后 %n 步存为 GIF 动画…</numerusform>
        </translation>
    </message>
    <message>
        <source>The reply ended before its first token.</source>
        <translation>回复在首个词元之前就结束了。</translation>
    </message>
    <message>
        <source>The target gave it {percent}</source>
        <translation>目标模型给它 {percent}</translation>
    </message>
    <message>
        <source>The target read the prompt and chose this token by itself. Guessing starts from it.</source>
        <translation>目标模型读取提示后自己选了这个词元。猜测从它开始。</translation>
    </message>
    <message>
        <source>The text's last words, {words}, also stood {where}. The guesses are what followed them there.</source>
        <translation>文本末尾的 {words} 也出现在{where}。猜测就是当时跟在其后的内容。</translation>
    </message>
    <message>
        <source>There is no folder “{folder}”.</source>
        <translation>没有文件夹“{folder}”。</translation>
    </message>
    <message>
        <source>There is no helper here: the target guesses for itself. In the grid it fills in several places of the text ahead at once, roughly at first and better with every pass. Sequences of words that come up there are collected, and those that begin with the text's last token stand above as guesses. The target checks them in the same pass, keeps the longest beginning that it agrees with and adds a token of its own, the bonus token.</source>
        <translation>这里没有助手：目标模型自己猜测。它在网格中同时填入后面的几个位置，起初粗略，每次前向都更准。其中出现的词序列会被收集，以文本最后一个词元开头的序列作为猜测显示在上方。目标模型在同一次前向中检查它们，保留它同意的最长开头，再加上自己的一个词元，即奖励词元。</translation>
    </message>
    <message>
        <source>There is no room left on the disk for “{name}”.</source>
        <translation>磁盘上没有空间存放“{name}”。</translation>
    </message>
    <message>
        <source>This step as PNG…</source>
        <translation>这一步存为 PNG…</translation>
    </message>
    <message>
        <source>This step as SVG…</source>
        <translation>这一步存为 SVG…</translation>
    </message>
    <message>
        <source>Time of this step</source>
        <translation>这一步的用时</translation>
    </message>
    <message>
        <source>Token</source>
        <translation>词元</translation>
    </message>
    <message>
        <source>Token id</source>
        <translation>词元 id</translation>
    </message>
    <message>
        <source>Token {token}, id {id}</source>
        <translation>词元 {token}，id {id}</translation>
    </message>
    <message>
        <source>Tokens per step</source>
        <translation>每步词元数</translation>
    </message>
    <message>
        <source>Try another format; the log has the details.</source>
        <translation>请试试其他格式；详情见日志。</translation>
    </message>
    <message>
        <source>Verdict</source>
        <translation>结果</translation>
    </message>
    <message>
        <source>What am I looking at?</source>
        <translation>这是什么？</translation>
    </message>
    <message>
        <source>What the target would have given it was not worked out</source>
        <translation>没有计算目标模型会给它的概率</translation>
    </message>
    <message>
        <source>Which pass of the target is shown.</source>
        <translation>显示的是目标模型的哪一次前向。</translation>
    </message>
    <message>
        <source>Window</source>
        <translation>窗口</translation>
    </message>
    <message>
        <source>Window ({row}): not a guess, but where the next guesses come from</source>
        <translation>窗口（{row}）：不是猜测，而是下一批猜测的来源</translation>
    </message>
    <message>
        <source>Window: places ahead that the target fills in on the side</source>
        <translation>窗口：目标模型顺带填入的后续位置</translation>
    </message>
    <message>
        <source>Writing “{name}”…</source>
        <translation>正在写入“{name}”…</translation>
    </message>
    <message>
        <source>Zoom in (Ctrl++)</source>
        <translation>放大 (Ctrl++)</translation>
    </message>
    <message>
        <source>Zoom out (Ctrl+−)</source>
        <translation>缩小 (Ctrl+−)</translation>
    </message>
    <message>
        <source>a token</source>
        <translation>一个词元</translation>
    </message>
    <message>
        <source>accept</source>
        <translation>接受</translation>
    </message>
    <message>
        <source>accepted/drafted</source>
        <translation>接受/起草</translation>
    </message>
    <message>
        <source>accepted/drafted, {share} %</source>
        <translation>接受/起草，{share}%</translation>
    </message>
    <message>
        <source>and the whole path {percent}</source>
        <translation>整条路径 {percent}</translation>
    </message>
    <message>
        <source>draft</source>
        <translation>起草</translation>
    </message>
    <message>
        <source>draft: the guesses are made. verify: the target checks all of them in one pass. accept: choosing the path and tidying the cache. other: the rest.</source>
        <translation>起草：作出猜测。验证：目标模型在一次前向中检查全部猜测。接受：选择路径并整理缓存。其他：其余部分。</translation>
    </message>
    <message>
        <source>none</source>
        <translation>无</translation>
    </message>
    <message>
        <source>other</source>
        <translation>其他</translation>
    </message>
    <message>
        <source>prompt</source>
        <translation>提示</translation>
    </message>
    <message>
        <source>step</source>
        <translation>步骤</translation>
    </message>
    <message>
        <source>step of {last}</source>
        <translation>共 {last} 步</translation>
    </message>
    <message>
        <source>tokens per step (τ)</source>
        <translation>每步词元数 (τ)</translation>
    </message>
    <message>
        <source>tokens/s</source>
        <translation>词元/s</translation>
    </message>
    <message>
        <source>tokens/s (now {speed})</source>
        <translation>词元/s（当前 {speed}）</translation>
    </message>
    <message>
        <source>tokens/s, up to {speed}</source>
        <translation>词元/s，最高 {speed}</translation>
    </message>
    <message numerus="yes">
        <source>up to %n rows</source>
        <translation>
            <numerusform>最多 %n 行</numerusform>
        </translation>
    </message>
    <message>
        <source>verify</source>
        <translation>验证</translation>
    </message>
    <message>
        <source>without guessing: {speed} tokens/s</source>
        <translation>不猜测：{speed} 词元/s</translation>
    </message>
    <message>
        <source>{accepted} of {drafted} guesses accepted so far</source>
        <translation>到目前为止 {drafted} 个猜测中接受 {accepted} 个</translation>
    </message>
    <message>
        <source>{kind}, depth {depth}</source>
        <translation>{kind}，深度 {depth}</translation>
    </message>
    <message>
        <source>{rows}: {speed} tokens/s, {tokens} tokens a step</source>
        <translation>{rows}：{speed} 词元/s，每步 {tokens} 个词元</translation>
    </message>
    <message>
        <source>{speed} tokens/s</source>
        <translation>{speed} 词元/s</translation>
    </message>
    <message>
        <source>{steps}, {least} to {most} tokens each; lately τ {tau} and {speed} tokens per second</source>
        <translation>{steps}，每步 {least} 到 {most} 个词元；最近 τ {tau}，每秒 {speed} 个词元</translation>
    </message>
    <message>
        <source>{step}: {tokens}</source>
        <translation>{step}：{tokens}</translation>
    </message>
    <message>
        <source>{total} in all: {parts}</source>
        <translation>总计 {total}：{parts}</translation>
    </message>
    <message>
        <source>“{name}” could not be written: {reason}.</source>
        <translation>无法写入“{name}”：{reason}。</translation>
    </message>
</context>
<context>
    <name>Reply</name>
    <message>
        <source>Acceptance length τ: tokens gained per pass of the target model, the bonus token included. Plain decoding has 1.</source>
        <translation>接受长度 τ：目标模型每次前向得到的词元数，含奖励词元。普通解码为 1。</translation>
    </message>
    <message>
        <source>Continue this reply</source>
        <translation>续写此回复</translation>
    </message>
    <message>
        <source>Conversation</source>
        <translation>对话</translation>
    </message>
    <message>
        <source>Copy this code</source>
        <translation>复制此代码</translation>
    </message>
    <message>
        <source>Copy this code ({language})</source>
        <translation>复制此代码（{language}）</translation>
    </message>
    <message>
        <source>Copy this prompt</source>
        <translation>复制此提示</translation>
    </message>
    <message>
        <source>Copy this reply</source>
        <translation>复制此回复</translation>
    </message>
    <message>
        <source>Copy this reply as Markdown</source>
        <translation>将此回复复制为 Markdown</translation>
    </message>
    <message numerus="yes">
        <source>Drafted: {count} tokens, accepted {accepted} ({share})</source>
        <translation>
            <numerusform>起草：{count} 个词元，接受 {accepted} 个（{share}）</numerusform>
        </translation>
    </message>
    <message>
        <source>EAGLE</source>
        <translation>EAGLE</translation>
    </message>
    <message>
        <source>Edit this prompt</source>
        <translation>编辑此提示</translation>
    </message>
    <message>
        <source>Go to the newest text</source>
        <translation>转到最新文字</translation>
    </message>
    <message>
        <source>Opens only after you confirm: {address}</source>
        <translation>确认后才会打开：{address}</translation>
    </message>
    <message>
        <source>Passes of the target after the prompt: {count}</source>
        <translation>提示之后目标模型的前向次数：{count}</translation>
    </message>
    <message numerus="yes">
        <source>Prompt: {count} tokens, {reused} of them kept from the turn before</source>
        <translation>
            <numerusform>提示：{count} 个词元，其中 {reused} 个沿用上一轮</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Reading the prompt ({count} tokens)…</source>
        <translation>
            <numerusform>正在读取提示（{count} 个词元）…</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Reading the prompt: {done} of {count} tokens</source>
        <translation>
            <numerusform>正在读取提示：{done} / {count} 个词元</numerusform>
        </translation>
    </message>
    <message>
        <source>Reply</source>
        <translation>回复</translation>
    </message>
    <message>
        <source>Reply of the model</source>
        <translation>模型的回复</translation>
    </message>
    <message>
        <source>Reply of {model}</source>
        <translation>{model} 的回复</translation>
    </message>
    <message numerus="yes">
        <source>Show all {count} lines</source>
        <translation>
            <numerusform>显示全部 {count} 行</numerusform>
        </translation>
    </message>
    <message>
        <source>Show or hide what the model thought before it answered</source>
        <translation>显示或隐藏模型回答前的思考</translation>
    </message>
    <message numerus="yes">
        <source>Show {count} earlier messages</source>
        <translation>
            <numerusform>显示更早的 {count} 条消息</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>Show {some} of {count} lines more</source>
        <translation>
            <numerusform>再显示 {count} 行中的 {some} 行</numerusform>
        </translation>
    </message>
    <message>
        <source>Step {number}: chosen by the target</source>
        <translation>第 {number} 步：由目标模型选出</translation>
    </message>
    <message>
        <source>Step {number}: drafted, and accepted by the target</source>
        <translation>第 {number} 步：先起草，后被目标模型接受</translation>
    </message>
    <message>
        <source>Thinking… {length}</source>
        <translation>思考中… {length}</translation>
    </message>
    <message>
        <source>Thought for about {time} · {length}</source>
        <translation>思考了约 {time} · {length}</translation>
    </message>
    <message>
        <source>Thoughts of the model</source>
        <translation>模型的思考</translation>
    </message>
    <message>
        <source>Thoughts of {model}</source>
        <translation>{model} 的思考</translation>
    </message>
    <message>
        <source>Thoughts · {length}</source>
        <translation>思考 · {length}</translation>
    </message>
    <message>
        <source>Tokens per second while writing; reading the prompt is left out.</source>
        <translation>写回复时每秒的词元数；不含读取提示的时间。</translation>
    </message>
    <message>
        <source>Version after</source>
        <translation>下一个版本</translation>
    </message>
    <message>
        <source>Version before</source>
        <translation>上一个版本</translation>
    </message>
    <message>
        <source>Version {place} of {count}</source>
        <translation>版本 {place} / {count}</translation>
    </message>
    <message>
        <source>Waiting for the engine…</source>
        <translation>正在等待引擎…</translation>
    </message>
    <message>
        <source>Write this reply again</source>
        <translation>重写此回复</translation>
    </message>
    <message>
        <source>Your prompt</source>
        <translation>你的提示</translation>
    </message>
    <message>
        <source>complete</source>
        <translation>完整</translation>
    </message>
    <message>
        <source>context is full</source>
        <translation>上下文已满</translation>
    </message>
    <message>
        <source>ended by an error</source>
        <translation>因错误结束</translation>
    </message>
    <message>
        <source>first token after {time}</source>
        <translation>首词元用时 {time}</translation>
    </message>
    <message>
        <source>length limit reached</source>
        <translation>达到长度上限</translation>
    </message>
    <message>
        <source>mixed</source>
        <translation>混合</translation>
    </message>
    <message>
        <source>plain</source>
        <translation>普通</translation>
    </message>
    <message>
        <source>stopped by you</source>
        <translation>由你停止</translation>
    </message>
    <message>
        <source>text</source>
        <translation>文本</translation>
    </message>
    <message numerus="yes">
        <source>{count} tokens</source>
        <translation>
            <numerusform>{count} 个词元</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>{count} words</source>
        <translation>
            <numerusform>{count} 个词</numerusform>
        </translation>
    </message>
    <message>
        <source>{name}, part {number}</source>
        <translation>{name}，第 {number} 部分</translation>
    </message>
    <message>
        <source>{number} ms</source>
        <translation>{number} ms</translation>
    </message>
    <message>
        <source>{number} s</source>
        <translation>{number} s</translation>
    </message>
    <message>
        <source>{number} tokens/s</source>
        <translation>{number} 词元/s</translation>
    </message>
</context>
<context>
    <name>Settings</name>
    <message>
        <source> min</source>
        <translation> 分钟</translation>
    </message>
    <message>
        <source> pt</source>
        <translation> pt</translation>
    </message>
    <message>
        <source>0 (greedy)</source>
        <translation>0（贪心）</translation>
    </message>
    <message>
        <source>0 takes the likeliest token each time; higher is freer.</source>
        <translation>0 每次都取最可能的词元；越高越自由。</translation>
    </message>
    <message>
        <source>Above 1 makes what was said less likely; 1 is off.</source>
        <translation>大于 1 时已说过的内容更不容易出现；1 为关闭。</translation>
    </message>
    <message>
        <source>An unloaded model comes back with the next prompt.</source>
        <translation>卸载的模型会在下一条提示时重新加载。</translation>
    </message>
    <message>
        <source>Appearance</source>
        <translation>外观</translation>
    </message>
    <message>
        <source>As the system</source>
        <translation>跟随系统</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>自动</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>关闭</translation>
    </message>
    <message>
        <source>Dark</source>
        <translation>深色</translation>
    </message>
    <message>
        <source>Depth</source>
        <translation>深度</translation>
    </message>
    <message>
        <source>Different each time</source>
        <translation>每次不同</translation>
    </message>
    <message>
        <source>Draft tree</source>
        <translation>草稿树</translation>
    </message>
    <message>
        <source>Drops tokens below this share of the likeliest one's probability; 0 is off.</source>
        <translation>舍去概率低于最可能词元此比例的词元；0 为关闭。</translation>
    </message>
    <message>
        <source>Eyrie speaks it when it is started the next time.</source>
        <translation>下次启动 Eyrie 时生效。</translation>
    </message>
    <message>
        <source>Follow the system</source>
        <translation>跟随系统</translation>
    </message>
    <message>
        <source>Font size</source>
        <translation>字号</translation>
    </message>
    <message>
        <source>Frequency penalty</source>
        <translation>频率惩罚</translation>
    </message>
    <message>
        <source>Gives the GPU back when nothing was asked for so long.</source>
        <translation>长时间没有请求时释放 GPU。</translation>
    </message>
    <message>
        <source>How far the EAGLE head guesses ahead: changes the speed, not what the model would choose.</source>
        <translation>EAGLE 头向前猜多远：只改变速度，不改变模型的选择。</translation>
    </message>
    <message>
        <source>Keeps the likeliest tokens that together have this probability.</source>
        <translation>保留合计达到此概率的最可能词元。</translation>
    </message>
    <message>
        <source>Keeps this many of the likeliest tokens; 0 switches the filter off.</source>
        <translation>保留这么多个最可能的词元；0 为关闭。</translation>
    </message>
    <message>
        <source>Language</source>
        <translation>语言</translation>
    </message>
    <message>
        <source>Levels below the root.</source>
        <translation>根之下的层数。</translation>
    </message>
    <message>
        <source>Light</source>
        <translation>浅色</translation>
    </message>
    <message>
        <source>Longest reply (tokens)</source>
        <translation>最长回复（词元）</translation>
    </message>
    <message>
        <source>Mark accepted draft tokens in replies</source>
        <translation>在回复中标记被接受的草稿词元</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>内存</translation>
    </message>
    <message>
        <source>Min-p</source>
        <translation>Min-p</translation>
    </message>
    <message>
        <source>Never</source>
        <translation>从不</translation>
    </message>
    <message>
        <source>No repeat of</source>
        <translation>不重复长度</translation>
    </message>
    <message>
        <source>Nodes</source>
        <translation>节点</translation>
    </message>
    <message>
        <source>Own value</source>
        <translation>单独设置</translation>
    </message>
    <message>
        <source>Presence penalty</source>
        <translation>存在惩罚</translation>
    </message>
    <message>
        <source>Reduce motion: show new text and trees a few times a second</source>
        <translation>减少动态效果：每秒只更新几次新文字和树</translation>
    </message>
    <message>
        <source>Repetition penalty</source>
        <translation>重复惩罚</translation>
    </message>
    <message>
        <source>Replies</source>
        <translation>回复</translation>
    </message>
    <message>
        <source>Restore defaults</source>
        <translation>恢复默认</translation>
    </message>
    <message>
        <source>Seed</source>
        <translation>随机种子</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>设置</translation>
    </message>
    <message>
        <source>So many tokens in a row never come twice; 0 is off.</source>
        <translation>连续这么多个词元不会出现两次；0 为关闭。</translation>
    </message>
    <message>
        <source>Some settings were not valid and have their default again: {names}.</source>
        <translation>部分设置无效，已恢复默认：{names}。</translation>
    </message>
    <message>
        <source>Taken from tokens that the reply has already; 0 is off.</source>
        <translation>从回复中已有的词元扣除；0 为关闭。</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>温度</translation>
    </message>
    <message>
        <source>The old file is kept as {file}.</source>
        <translation>旧文件保留为 {file}。</translation>
    </message>
    <message>
        <source>The same for each time that it has them; 0 is off.</source>
        <translation>按出现次数逐次扣除；0 为关闭。</translation>
    </message>
    <message>
        <source>The same seed and settings give the same reply again.</source>
        <translation>相同的种子和设置会得到相同的回复。</translation>
    </message>
    <message>
        <source>The settings could not be saved: {error}.</source>
        <translation>无法保存设置：{error}。</translation>
    </message>
    <message>
        <source>The settings file could not be read, so the defaults apply.</source>
        <translation>无法读取设置文件，因此使用默认值。</translation>
    </message>
    <message>
        <source>The window speaks it once these settings are closed and nothing is being written.</source>
        <translation>关闭此设置且没有内容正在生成时，窗口会切换为该语言。</translation>
    </message>
    <message>
        <source>Theme</source>
        <translation>主题</translation>
    </message>
    <message>
        <source>Tokens checked in one pass of the target, the root included.</source>
        <translation>目标模型一次前向检查的词元数，含根。</translation>
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
        <translation>卸载时间</translation>
    </message>
    <message>
        <source>Unload without use</source>
        <translation>闲置时卸载</translation>
    </message>
    <message>
        <source>Used from the next reply on.</source>
        <translation>从下一条回复起生效。</translation>
    </message>
    <message>
        <source>off</source>
        <translation>关</translation>
    </message>
    <message>
        <source>{setting}: own value</source>
        <translation>{setting}：单独设置</translation>
    </message>
    <message>
        <source>{setting}: {choice}</source>
        <translation>{setting}：{choice}</translation>
    </message>
</context>
<context>
    <name>Shortcuts</name>
    <message>
        <source>Command</source>
        <translation>命令</translation>
    </message>
    <message>
        <source>Draft tree: first and last step</source>
        <translation>草稿树：第一步和最后一步</translation>
    </message>
    <message>
        <source>Draft tree: hold and follow</source>
        <translation>草稿树：暂停和跟随</translation>
    </message>
    <message>
        <source>Draft tree: step before, step after</source>
        <translation>草稿树：上一步、下一步</translation>
    </message>
    <message>
        <source>In the parts of the window</source>
        <translation>窗口各部分中</translation>
    </message>
    <message>
        <source>Keyboard shortcuts</source>
        <translation>键盘快捷键</translation>
    </message>
    <message>
        <source>Keys</source>
        <translation>按键</translation>
    </message>
    <message>
        <source>List of chats: delete</source>
        <translation>聊天列表：删除</translation>
    </message>
    <message>
        <source>New line in the prompt</source>
        <translation>在提示中换行</translation>
    </message>
    <message>
        <source>Send the prompt</source>
        <translation>发送提示</translation>
    </message>
</context>
<context>
    <name>Start</name>
    <message>
        <source>Another Eyrie uses this data folder and does not answer. End it, or choose another folder with --data-dir.</source>
        <translation>另一个 Eyrie 正在使用此数据文件夹且没有响应。请结束它，或用 --data-dir 选择其他文件夹。</translation>
    </message>
    <message>
        <source>Eyrie cannot use its data folder: {error}. Choose another with --data-dir, or free what is in the way.</source>
        <translation>Eyrie 无法使用其数据文件夹：{error}。请用 --data-dir 选择其他文件夹，或清除造成阻碍的原因。</translation>
    </message>
</context>
<context>
    <name>Tool bar</name>
    <message>
        <source>Compare</source>
        <translation>对比</translation>
    </message>
    <message>
        <source>Draft with {head} (Ctrl+E): changes the speed, not what the model would choose.</source>
        <translation>用 {head} 起草 (Ctrl+E)：只改变速度，不改变模型的选择。</translation>
    </message>
    <message>
        <source>EAGLE can be switched once a model is loaded.</source>
        <translation>加载模型后才能切换 EAGLE。</translation>
    </message>
    <message>
        <source>EAGLE not available</source>
        <translation>EAGLE 不可用</translation>
    </message>
    <message>
        <source>The menu beside it has methods that need none.</source>
        <translation>旁边的菜单中有不需要头的方法。</translation>
    </message>
    <message>
        <source>This model has no EAGLE head.</source>
        <translation>此模型没有 EAGLE 头。</translation>
    </message>
    <message>
        <source>Tools</source>
        <translation>工具</translation>
    </message>
    <message>
        <source>{about} (Ctrl+E)</source>
        <translation>{about} (Ctrl+E)</translation>
    </message>
    <message>
        <source>{method} off</source>
        <translation>{method} 关</translation>
    </message>
    <message>
        <source>{method} on</source>
        <translation>{method} 开</translation>
    </message>
</context>
<context>
    <name>Tour</name>
    <message>
        <source>A small head guesses several words ahead; the model checks all guesses at once. Here you see which it accepted. The reply stays the model's own, it only comes faster.</source>
        <translation>一个小小的头提前猜几个词；模型一次检查所有猜测。这里可以看到它接受了哪些。回复仍是模型自己的，只是来得更快。</translation>
    </message>
    <message>
        <source>Done</source>
        <translation>完成</translation>
    </message>
    <message>
        <source>EAGLE on and off</source>
        <translation>开关 EAGLE</translation>
    </message>
    <message>
        <source>Everything runs on this computer. Enter sends, Esc stops a reply; what came stays.</source>
        <translation>一切都在这台电脑上运行。Enter 发送，Esc 停止回复；已有内容会保留。</translation>
    </message>
    <message>
        <source>Next</source>
        <translation>下一步</translation>
    </message>
    <message>
        <source>Skip</source>
        <translation>跳过</translation>
    </message>
    <message>
        <source>Switch the guessing off to see the difference, or compare both side by side.</source>
        <translation>关闭猜测看看区别，或并排对比两者。</translation>
    </message>
    <message>
        <source>The draft tree</source>
        <translation>草稿树</translation>
    </message>
    <message>
        <source>They are kept on this computer as you write. Search in all of them with Ctrl+F; every command is found with Ctrl+K, and ? lists the keys.</source>
        <translation>聊天随写随存在这台电脑上。用 Ctrl+F 搜索全部；用 Ctrl+K 查找任何命令，按 ? 列出按键。</translation>
    </message>
    <message>
        <source>Tour of the window</source>
        <translation>窗口导览</translation>
    </message>
    <message>
        <source>Write here</source>
        <translation>在这里写</translation>
    </message>
    <message>
        <source>Your chats</source>
        <translation>你的聊天</translation>
    </message>
    <message>
        <source>{place} of {stops}</source>
        <translation>{place} / {stops}</translation>
    </message>
</context>
<context>
    <name>Window</name>
    <message>
        <source>Diagnostics copied</source>
        <translation>诊断信息已复制</translation>
    </message>
    <message>
        <source>Loading…</source>
        <translation>正在加载…</translation>
    </message>
    <message>
        <source>Model unloaded</source>
        <translation>模型已卸载</translation>
    </message>
    <message>
        <source>No model</source>
        <translation>没有模型</translation>
    </message>
    <message>
        <source>Ready</source>
        <translation>就绪</translation>
    </message>
    <message numerus="yes">
        <source>Reply finished, {count} tokens.</source>
        <translation>
            <numerusform>回复完成，{count} 个词元。</numerusform>
        </translation>
    </message>
    <message>
        <source>The next reply is drafted that way; this one goes on as it began.</source>
        <translation>从下一条回复起采用此方法；当前回复仍按原来的方式继续。</translation>
    </message>
    <message>
        <source>Unloaded</source>
        <translation>已卸载</translation>
    </message>
    <message>
        <source>Writing</source>
        <translation>正在写</translation>
    </message>
    <message>
        <source>Your prompt is sent as soon as the model is loaded. Esc takes it back.</source>
        <translation>模型加载完成后会立即发送你的提示。按 Esc 可撤回。</translation>
    </message>
</context>
<context>
    <name>engine</name>
    <message>
        <source>A guess that the drafter gives less than this gets no guesses of its own; 0.2 to 0.4 are usual, 0 switches it off.</source>
        <translation>草稿给出的概率低于此值的猜测不再展开；通常取 0.2 至 0.4，0 为关闭。</translation>
    </message>
    <message>
        <source>A guess with this probability always stands under typical acceptance.</source>
        <translation>在典型接受下，达到此概率的猜测总会被保留。</translation>
    </message>
    <message>
        <source>A logit bias names a token that the model does not have.</source>
        <translation>某个 logit 偏置指向模型没有的词元。</translation>
    </message>
    <message>
        <source>A mixture of experts, where drafting gains little.</source>
        <translation>混合专家模型，起草收益很小。</translation>
    </message>
    <message>
        <source>A mixture of experts. Its makers measured acceptance lengths of 3.4 to 5.3 on HumanEval.</source>
        <translation>混合专家模型。其作者在 HumanEval 上测得接受长度 3.4 到 5.3。</translation>
    </message>
    <message>
        <source>A mixture of experts: bitsandbytes does not quantise its experts, so that it needs far more than 24 GB.</source>
        <translation>混合专家模型：bitsandbytes 不量化其专家，因此需要远超 24 GB。</translation>
    </message>
    <message>
        <source>A mixture of experts: bitsandbytes does not quantise its experts.</source>
        <translation>混合专家模型：bitsandbytes 不量化其专家。</translation>
    </message>
    <message>
        <source>A network that asks for a login answers with its own page: open any page in a browser. If HF_ENDPOINT is set, check it.</source>
        <translation>需要登录的网络会返回它自己的页面：请在浏览器中打开任意网页。如果设置了 HF_ENDPOINT，请检查它。</translation>
    </message>
    <message>
        <source>A part of the demo model is damaged: {0} has the SHA-256 {1}… where {2}… is expected.</source>
        <translation>演示模型的一部分已损坏：{0} 的 SHA-256 为 {1}…，应为 {2}…。</translation>
    </message>
    <message>
        <source>A part of the demo model is damaged: {0} has {1} bytes where {2} are expected.</source>
        <translation>演示模型的一部分已损坏：{0} 有 {1} 字节，应为 {2}。</translation>
    </message>
    <message>
        <source>A part of the demo model is missing: {0}.</source>
        <translation>演示模型缺少一部分：{0}。</translation>
    </message>
    <message>
        <source>A small head continues states from three depths of the model; the tree grows where the head is sure.</source>
        <translation>一个小头延续模型三个深度的状态；树在头有把握处生长。</translation>
    </message>
    <message>
        <source>A small head continues the model's last state; the tree grows where the head is sure of itself.</source>
        <translation>一个小头延续模型的最后状态；树在头有把握处生长。</translation>
    </message>
    <message>
        <source>A small head guesses along a tree of fixed shape. Any EAGLE head can be used, so that the fixed tree can be compared with the growing one.</source>
        <translation>一个小头沿固定形状的树猜测。可用任何 EAGLE 头，以便将固定的树与生长的树对比。</translation>
    </message>
    <message>
        <source>A smaller model of the same family writes ahead, and the large one checks.</source>
        <translation>同系列的较小模型先写，大模型检查。</translation>
    </message>
    <message>
        <source>AWQ of version “{0}” is not known.</source>
        <translation>未知的 AWQ 版本“{0}”。</translation>
    </message>
    <message>
        <source>Accept its licence on its page (some owners confirm by hand), then try again.</source>
        <translation>请在其网页上接受许可证（有些所有者会人工确认），然后重试。</translation>
    </message>
    <message>
        <source>Accept its licence on its page, then enter an access token of your account.</source>
        <translation>请在其网页上接受许可证，然后输入你账户的访问令牌。</translation>
    </message>
    <message>
        <source>Acceptance</source>
        <translation>接受方式</translation>
    </message>
    <message>
        <source>AngelSlim benchmarks with vLLM, one GPU, a chain of drafts</source>
        <translation>AngelSlim 基准测试（vLLM，单 GPU，链式草稿）</translation>
    </message>
    <message>
        <source>At temperatures above 0, draw guesses from the drafter's own distribution, as published, and verify them by p/q. Off: try its likeliest tokens; a seed's text is then that of plain decoding.</source>
        <translation>温度高于 0 时，按论文从草稿自身的分布抽取猜测，并以 p/q 验证。关：尝试其最可能的词元；同一种子的文本便与普通解码相同。</translation>
    </message>
    <message>
        <source>Branches</source>
        <translation>分支</translation>
    </message>
    <message>
        <source>Cancel this download and start it again to get the new version.</source>
        <translation>请取消此下载并重新开始，以获取新版本。</translation>
    </message>
    <message>
        <source>Check HTTP_PROXY, HTTPS_PROXY and NO_PROXY, or the system's proxy settings, then start Eyrie again.</source>
        <translation>请检查 HTTP_PROXY、HTTPS_PROXY 和 NO_PROXY 或系统的代理设置，然后重新启动 Eyrie。</translation>
    </message>
    <message>
        <source>Check its permissions and its drive, or choose another.</source>
        <translation>请检查访问权限和磁盘，或另选一个。</translation>
    </message>
    <message>
        <source>Check its permissions, or choose another cache folder with HF_HUB_CACHE.</source>
        <translation>请检查其权限，或用 HF_HUB_CACHE 选择其他缓存文件夹。</translation>
    </message>
    <message>
        <source>Check that the folder holds a whole model, or download it again.</source>
        <translation>请检查该文件夹是否含有完整的模型，或重新下载。</translation>
    </message>
    <message>
        <source>Check the connection and the proxy settings, or set HF_ENDPOINT to a mirror.</source>
        <translation>请检查网络连接和代理设置，或将 HF_ENDPOINT 设为镜像。</translation>
    </message>
    <message>
        <source>Check the name. A private repository needs a token that may read it.</source>
        <translation>请检查名称。私有仓库需要有权读取的令牌。</translation>
    </message>
    <message>
        <source>Check the permissions of that folder, or set EYRIE_DATA_DIR to one that can be written.</source>
        <translation>请检查该文件夹的权限，或将 EYRIE_DATA_DIR 设为可写的文件夹。</translation>
    </message>
    <message>
        <source>Check the rights of the token.</source>
        <translation>请检查令牌的权限。</translation>
    </message>
    <message>
        <source>Checking the demo model</source>
        <translation>正在检查演示模型</translation>
    </message>
    <message>
        <source>Checking the file</source>
        <translation>正在检查文件</translation>
    </message>
    <message>
        <source>Checking the head</source>
        <translation>正在检查头</translation>
    </message>
    <message>
        <source>Children considered for each node, and nodes expanded at each level.</source>
        <translation>每个节点考虑的子节点数，以及每层展开的节点数。</translation>
    </message>
    <message>
        <source>Choose a .gguf file, or a folder with a model.</source>
        <translation>请选择 .gguf 文件，或含模型的文件夹。</translation>
    </message>
    <message>
        <source>Choose a Llama, Mistral, Qwen or Gemma model.</source>
        <translation>请选择 Llama、Mistral、Qwen 或 Gemma 模型。</translation>
    </message>
    <message>
        <source>Choose a folder that holds a model, or a .gguf file.</source>
        <translation>请选择含模型的文件夹，或 .gguf 文件。</translation>
    </message>
    <message>
        <source>Choose a folder that holds config.json and model.safetensors.</source>
        <translation>请选择含 config.json 和 model.safetensors 的文件夹。</translation>
    </message>
    <message>
        <source>Choose a head made for this model, or chat without one.</source>
        <translation>请选择为此模型制作的头，或不用头聊天。</translation>
    </message>
    <message>
        <source>Choose a head made for this model.</source>
        <translation>请选择为此模型制作的头。</translation>
    </message>
    <message>
        <source>Choose a head that reads three layers.</source>
        <translation>请选择读取三层的头。</translation>
    </message>
    <message>
        <source>Choose a model that ships one, or download it again.</source>
        <translation>请选择自带它的模型，或重新下载。</translation>
    </message>
    <message>
        <source>Choose a newer file of this model.</source>
        <translation>请选择此模型较新的文件。</translation>
    </message>
    <message>
        <source>Choose a version of the model in the safetensors format.</source>
        <translation>请选择此模型的 safetensors 版本。</translation>
    </message>
    <message>
        <source>Choose a version of the model that has a tokenizer.json.</source>
        <translation>请选择带 tokenizer.json 的模型版本。</translation>
    </message>
    <message>
        <source>Choose an EAGLE-1, EAGLE-2, EAGLE-3 or Medusa head.</source>
        <translation>请选择 EAGLE-1、EAGLE-2、EAGLE-3 或 Medusa 头。</translation>
    </message>
    <message>
        <source>Choose an EAGLE-3 head.</source>
        <translation>请选择 EAGLE-3 头。</translation>
    </message>
    <message>
        <source>Choose an instruction-tuned model (its name often ends in -it, -Instruct or -Chat).</source>
        <translation>请选择经过指令微调的模型（名称常以 -it、-Instruct 或 -Chat 结尾）。</translation>
    </message>
    <message>
        <source>Choose another file of this model, for example Q4_K_M or Q8_0.</source>
        <translation>请选择此模型的其他文件，例如 Q4_K_M 或 Q8_0。</translation>
    </message>
    <message>
        <source>Choose another file of this model, or its safetensors version.</source>
        <translation>请选择此模型的其他文件或其 safetensors 版本。</translation>
    </message>
    <message>
        <source>Choose another folder.</source>
        <translation>请选择其他文件夹。</translation>
    </message>
    <message>
        <source>Choose another head.</source>
        <translation>请选择其他头。</translation>
    </message>
    <message>
        <source>Choose another head: this variant is not supported.</source>
        <translation>请选择其他头：不支持此变体。</translation>
    </message>
    <message>
        <source>Choose another model or download it again.</source>
        <translation>请选择其他模型，或重新下载。</translation>
    </message>
    <message>
        <source>Choose another model.</source>
        <translation>请选择其他模型。</translation>
    </message>
    <message>
        <source>Choose another model: Llama, Mistral, Qwen, Gemma, Phi or Mixtral work with EAGLE.</source>
        <translation>请选择其他模型：Llama、Mistral、Qwen、Gemma、Phi 或 Mixtral 可与 EAGLE 配合。</translation>
    </message>
    <message>
        <source>Choose another one to draft with.</source>
        <translation>请选择其他模型来起草。</translation>
    </message>
    <message>
        <source>Choose another repository.</source>
        <translation>请选择其他仓库。</translation>
    </message>
    <message>
        <source>Choose another version of this model, for example the unquantised one.</source>
        <translation>请选择此模型的其他版本，例如未量化的版本。</translation>
    </message>
    <message>
        <source>Choose cpu or cuda.</source>
        <translation>请选择 cpu 或 cuda。</translation>
    </message>
    <message>
        <source>Choose cuda:0 or cpu.</source>
        <translation>请选择 cuda:0 或 cpu。</translation>
    </message>
    <message>
        <source>Choose heads of version 0.1, which belong to an unchanged model.</source>
        <translation>请选择 0.1 版的头，它们属于未改动的模型。</translation>
    </message>
    <message>
        <source>Choose it again.</source>
        <translation>请重新选择。</translation>
    </message>
    <message>
        <source>Choose nf4 for this GPU.</source>
        <translation>此 GPU 请选择 nf4。</translation>
    </message>
    <message>
        <source>Choose one of them, for example {0}.</source>
        <translation>请选择其中之一，例如 {0}。</translation>
    </message>
    <message>
        <source>Choose one of {0}.</source>
        <translation>请选择以下之一：{0}。</translation>
    </message>
    <message>
        <source>Choose the folder again.</source>
        <translation>请重新选择文件夹。</translation>
    </message>
    <message>
        <source>Choose the folder that holds config.json.</source>
        <translation>请选择含 config.json 的文件夹。</translation>
    </message>
    <message>
        <source>Choose the head in 16 bits; Eyrie quantises it itself.</source>
        <translation>请选择 16 位的头；Eyrie 会自行量化。</translation>
    </message>
    <message>
        <source>Choose the safetensors version of this model.</source>
        <translation>请选择此模型的 safetensors 版本。</translation>
    </message>
    <message>
        <source>Close other programs or choose a smaller model.</source>
        <translation>请关闭其他程序，或选择较小的模型。</translation>
    </message>
    <message>
        <source>Close what uses it and check the permissions of the cache, or delete the folder {0} yourself.</source>
        <translation>请关闭正在使用它的程序并检查缓存的访问权限，或自行删除文件夹 {0}。</translation>
    </message>
    <message>
        <source>Compare a shorter reply.</source>
        <translation>请对比较短的回复。</translation>
    </message>
    <message>
        <source>Compare with the same model again.</source>
        <translation>请用同一模型重新对比。</translation>
    </message>
    <message>
        <source>Confidence threshold</source>
        <translation>置信阈值</translation>
    </message>
    <message>
        <source>Converting the tokenizer</source>
        <translation>正在转换分词器</translation>
    </message>
    <message>
        <source>Converting the weights</source>
        <translation>正在转换权重</translation>
    </message>
    <message>
        <source>Correct the file, or delete it.</source>
        <translation>请更正该文件，或将其删除。</translation>
    </message>
    <message>
        <source>Delete that folder and load again.</source>
        <translation>请删除该文件夹并重新加载。</translation>
    </message>
    <message>
        <source>Delete the file and download it again.</source>
        <translation>请删除该文件并重新下载。</translation>
    </message>
    <message>
        <source>Delete the model and download it again.</source>
        <translation>请删除模型并重新下载。</translation>
    </message>
    <message>
        <source>Delete the model and download it again; if it stays, the model itself is damaged.</source>
        <translation>请删除模型并重新下载；若问题依旧，则模型本身已损坏。</translation>
    </message>
    <message>
        <source>Delete this file and download it again.</source>
        <translation>请删除此文件并重新下载。</translation>
    </message>
    <message>
        <source>Depth</source>
        <translation>深度</translation>
    </message>
    <message>
        <source>Do not use this file: it may carry a program. Look for a head in safetensors format.</source>
        <translation>请勿使用此文件：它可能带有程序。请寻找 safetensors 格式的头。</translation>
    </message>
    <message>
        <source>Do not use this file; choose a version of the model in the safetensors format.</source>
        <translation>请勿使用此文件；请选择模型的 safetensors 版本。</translation>
    </message>
    <message>
        <source>Do not use this model.</source>
        <translation>请勿使用此模型。</translation>
    </message>
    <message>
        <source>Download the file first.</source>
        <translation>请先下载该文件。</translation>
    </message>
    <message>
        <source>Download the head again or choose another.</source>
        <translation>请重新下载头，或选择其他头。</translation>
    </message>
    <message>
        <source>Download the head again, or choose one whose config.json belongs to its weights.</source>
        <translation>请重新下载头，或选择 config.json 与权重相符的头。</translation>
    </message>
    <message>
        <source>Download the head again.</source>
        <translation>请重新下载头。</translation>
    </message>
    <message>
        <source>Download the model again.</source>
        <translation>请重新下载模型。</translation>
    </message>
    <message>
        <source>Downloads keep what has arrived and go on once it is asked something again.</source>
        <translation>下载会保留已到达的部分，再次有请求时继续。</translation>
    </message>
    <message>
        <source>Draft model</source>
        <translation>草稿模型</translation>
    </message>
    <message>
        <source>Drafting pauses, because it loses.</source>
        <translation>起草暂停，因为得不偿失。</translation>
    </message>
    <message>
        <source>Draw the guesses</source>
        <translation>抽取猜测</translation>
    </message>
    <message>
        <source>EAGLE was not asked for.</source>
        <translation>没有要求使用 EAGLE。</translation>
    </message>
    <message>
        <source>EAGLE works with {0}.</source>
        <translation>EAGLE 可与 {0} 配合。</translation>
    </message>
    <message>
        <source>EAGLE-1</source>
        <translation>EAGLE-1</translation>
    </message>
    <message>
        <source>EAGLE-2 paper, table 1 (mean of 6 tasks, greedy, with the dynamic tree)</source>
        <translation>EAGLE-2 论文表 1（6 项任务平均，贪心，动态树）</translation>
    </message>
    <message>
        <source>EAGLE-3 paper, table 1 (mean of 5 tasks, greedy, one GPU, against plain transformers)</source>
        <translation>EAGLE-3 论文表 1（5 项任务平均，贪心，单 GPU，对比普通 transformers）</translation>
    </message>
    <message>
        <source>EAGLE-3 paper, table 1, row EAGLE-2 (mean of 5 tasks, greedy)</source>
        <translation>EAGLE-3 论文表 1 的 EAGLE-2 行（5 项任务平均，贪心）</translation>
    </message>
    <message>
        <source>Enter another token, or run “hf auth login” again.</source>
        <translation>请输入其他令牌，或重新运行“hf auth login”。</translation>
    </message>
    <message>
        <source>Explain in a few sentences why the sky is blue.</source>
        <translation>Explain in a few sentences why the sky is blue.</translation>
    </message>
    <message>
        <source>Eyrie ended while this reply was written.</source>
        <translation>Eyrie 在写此回复时退出了。</translation>
    </message>
    <message>
        <source>Five heads with an output table each.</source>
        <translation>五个头，各带一个输出表。</translation>
    </message>
    <message>
        <source>Free some space, or set EYRIE_DATA_DIR to a folder on another disk.</source>
        <translation>请腾出空间，或将 EYRIE_DATA_DIR 设为其他磁盘上的文件夹。</translation>
    </message>
    <message>
        <source>Free some space, then resume the download, or choose a cache folder on another disk with HF_HUB_CACHE.</source>
        <translation>请腾出空间后继续下载，或用 HF_HUB_CACHE 选择另一个磁盘上的缓存文件夹。</translation>
    </message>
    <message>
        <source>Free some space, then resume the download.</source>
        <translation>请腾出空间，然后继续下载。</translation>
    </message>
    <message>
        <source>Free space or change its permissions, or set {0} to a folder that can be written.</source>
        <translation>请腾出空间或更改权限，或将 {0} 设为可写的文件夹。</translation>
    </message>
    <message>
        <source>From {0} steps: {1} tokens in {2} ms a step, {3}× plain decoding.</source>
        <translation>据 {0} 步：每步 {2} ms 得 {1} 个词元，为普通解码的 {3} 倍。</translation>
    </message>
    <message>
        <source>Future positions that each pass fills.</source>
        <translation>每次前向填入的后续位置数。</translation>
    </message>
    <message>
        <source>Guesses</source>
        <translation>猜测数</translation>
    </message>
    <message>
        <source>Guesses after each guess: 1 makes a chain, more a tree.</source>
        <translation>每个猜测之后的猜测数：1 为链，更多则为树。</translation>
    </message>
    <message>
        <source>Guesses that the text goes on as it did when its last words stood here before. Needs no second model, and helps where a reply repeats its prompt.</source>
        <translation>猜测文本会像末尾几个词上次出现时那样继续。不需要第二个模型，在回复重复提示内容时有帮助。</translation>
    </message>
    <message>
        <source>HF_ENDPOINT is “{0}”, which is no address of a hub.</source>
        <translation>HF_ENDPOINT 是“{0}”，这不是模型中心的地址。</translation>
    </message>
    <message>
        <source>How many different continuations are tried at once, the newest first.</source>
        <translation>同时尝试多少种不同的续写，最新的优先。</translation>
    </message>
    <message>
        <source>In the token's settings, tick “Read access to contents of all public gated repos you can access”, or use another token.</source>
        <translation>请在令牌设置中勾选“Read access to contents of all public gated repos you can access”，或使用其他令牌。</translation>
    </message>
    <message>
        <source>Install or update the NVIDIA driver, or choose the device cpu.</source>
        <translation>请安装或更新 NVIDIA 驱动，或选择设备 cpu。</translation>
    </message>
    <message>
        <source>It could not be checked whether this head fits.</source>
        <translation>无法检查此头是否适合。</translation>
    </message>
    <message>
        <source>It does not say which layers it taps, and the usual ones do not exist in {0} layers.</source>
        <translation>它没有说明取用哪些层，而常用的层在 {0} 层中不存在。</translation>
    </message>
    <message>
        <source>It has none at all.</source>
        <translation>它根本没有。</translation>
    </message>
    <message>
        <source>It must be a number.</source>
        <translation>必须是数字。</translation>
    </message>
    <message>
        <source>It must be a text.</source>
        <translation>必须是文本。</translation>
    </message>
    <message>
        <source>It must be a whole number.</source>
        <translation>必须是整数。</translation>
    </message>
    <message>
        <source>It must be between {0} and {1}.</source>
        <translation>必须介于 {0} 和 {1} 之间。</translation>
    </message>
    <message>
        <source>It must be on or off.</source>
        <translation>必须是开或关 (on/off)。</translation>
    </message>
    <message>
        <source>It must be one of {0}.</source>
        <translation>必须是以下之一：{0}。</translation>
    </message>
    <message>
        <source>It must be {0}.</source>
        <translation>必须是 {0}。</translation>
    </message>
    <message>
        <source>It needs Medusa heads. Choose some that were made for this model.</source>
        <translation>它需要 Medusa 头。请选择为此模型制作的头。</translation>
    </message>
    <message>
        <source>It needs a smaller model with the same vocabulary to draft with.</source>
        <translation>它需要一个词表相同的较小模型来起草。</translation>
    </message>
    <message>
        <source>It needs an EAGLE head. Choose one for this model.</source>
        <translation>它需要 EAGLE 头。请为此模型选择一个。</translation>
    </message>
    <message>
        <source>It needs embeddings of width {0}, this model's have {1}, and it brings none.</source>
        <translation>它需要宽度为 {0} 的嵌入，此模型的为 {1}，而它没有自带。</translation>
    </message>
    <message>
        <source>It runs plainly, through transformers.</source>
        <translation>它通过 transformers 以普通方式运行。</translation>
    </message>
    <message>
        <source>It taps layer {0}, the model has {1} layers.</source>
        <translation>它取用第 {0} 层，而模型有 {1} 层。</translation>
    </message>
    <message>
        <source>It was damaged before it was put there: choose another repository or revision.</source>
        <translation>它在上传之前就已损坏：请选择其他仓库或版本。</translation>
    </message>
    <message>
        <source>It was made for a vocabulary of {0} tokens, this model has {1}.</source>
        <translation>它是为 {0} 个词元的词表制作的，此模型有 {1} 个。</translation>
    </message>
    <message>
        <source>It was made for hidden size {0}, this model has {1}.</source>
        <translation>它是为隐藏维度 {0} 制作的，此模型为 {1}。</translation>
    </message>
    <message>
        <source>It was made for {0}.</source>
        <translation>它是为 {0} 制作的。</translation>
    </message>
    <message>
        <source>Its configuration names the outputs of layers 1, 11 and 21.</source>
        <translation>其配置指定第 1、11 和 21 层的输出。</translation>
    </message>
    <message>
        <source>Its features are normed before the residual sum; its own configuration says so.</source>
        <translation>其特征在残差求和之前归一化；其配置如此说明。</translation>
    </message>
    <message>
        <source>Its files cannot be understood ({0}).</source>
        <translation>无法理解其文件（{0}）。</translation>
    </message>
    <message>
        <source>Its fusion layer has no bias.</source>
        <translation>其融合层没有偏置。</translation>
    </message>
    <message>
        <source>Its size is not known.</source>
        <translation>其大小未知。</translation>
    </message>
    <message>
        <source>Keys and values take half a megabyte a token: no grouped queries.</source>
        <translation>键和值每个词元占半兆字节：没有分组查询。</translation>
    </message>
    <message>
        <source>Leave out --quant.</source>
        <translation>请去掉 --quant。</translation>
    </message>
    <message>
        <source>Length of the n-grams that are collected and tried; the window is one less deep.</source>
        <translation>收集并尝试的 n-gram 长度；窗口比它少一层。</translation>
    </message>
    <message>
        <source>Let the download finish or cancel it, then delete the model.</source>
        <translation>请等下载完成或将其取消，然后再删除模型。</translation>
    </message>
    <message>
        <source>Levels of guesses below the root.</source>
        <translation>根之下的猜测层数。</translation>
    </message>
    <message>
        <source>Load a model first.</source>
        <translation>请先加载模型。</translation>
    </message>
    <message>
        <source>Load the model again to start over.</source>
        <translation>请重新加载模型以重新开始。</translation>
    </message>
    <message>
        <source>Loading the EAGLE head</source>
        <translation>正在加载 EAGLE 头</translation>
    </message>
    <message>
        <source>Loading the draft model</source>
        <translation>正在加载草稿模型</translation>
    </message>
    <message>
        <source>Loading the model</source>
        <translation>正在加载模型</translation>
    </message>
    <message>
        <source>Loading the weights</source>
        <translation>正在加载权重</translation>
    </message>
    <message>
        <source>Loading {0} through transformers</source>
        <translation>正在通过 transformers 加载 {0}</translation>
    </message>
    <message>
        <source>Longest match</source>
        <translation>最长匹配</translation>
    </message>
    <message>
        <source>Look at the list of its files.</source>
        <translation>请查看其文件列表。</translation>
    </message>
    <message>
        <source>Lookahead</source>
        <translation>前瞻解码</translation>
    </message>
    <message>
        <source>Lossless: what the model would have said. Typical: also what it finds likely enough; faster, but the replies are no longer the model's own.</source>
        <translation>无损：模型本来会说的内容。典型：也包括它认为足够可能的内容；更快，但回复不再是模型自己的。</translation>
    </message>
    <message>
        <source>Matches of fewer tokens are not used.</source>
        <translation>不使用词元更少的匹配。</translation>
    </message>
    <message>
        <source>Measuring how to read the EAGLE head</source>
        <translation>正在测量应如何读取 EAGLE 头</translation>
    </message>
    <message>
        <source>Measuring this machine</source>
        <translation>正在测量本机</translation>
    </message>
    <message>
        <source>Medusa</source>
        <translation>Medusa</translation>
    </message>
    <message>
        <source>Medusa heads do not say their size in their config.</source>
        <translation>Medusa 头的配置没有说明大小。</translation>
    </message>
    <message>
        <source>N-gram</source>
        <translation>N-gram</translation>
    </message>
    <message>
        <source>N-grams tried in one pass.</source>
        <translation>一次前向尝试的 n-gram 数。</translation>
    </message>
    <message>
        <source>Name five fruits and a use of each.</source>
        <translation>Name five fruits and a use of each.</translation>
    </message>
    <message>
        <source>Name {0}, or write paths of ranks such as [[0], [1], [0, 0]].</source>
        <translation>请指定 {0}，或写出排名路径，例如 [[0], [1], [0, 0]]。</translation>
    </message>
    <message>
        <source>Names look like owner/model.</source>
        <translation>名称形如 owner/model。</translation>
    </message>
    <message>
        <source>Needs bfloat16. Trained on English; users measured an acceptance length of only 2.14.</source>
        <translation>需要 bfloat16。以英语训练；用户测得的接受长度只有 2.14。</translation>
    </message>
    <message>
        <source>Needs {0}{1} GB; {2} GB of {3} can be used.</source>
        <translation>需要 {0}{1} GB；{3} 中有 {2} GB 可用。</translation>
    </message>
    <message>
        <source>Needs {0}{1} of {2} GB that can be used; {3} GB stay free.</source>
        <translation>需要可用 {2} GB 中的 {0}{1}；还剩 {3} GB。</translation>
    </message>
    <message>
        <source>No EAGLE head was chosen for this model. Choose one to switch EAGLE on.</source>
        <translation>没有为此模型选择 EAGLE 头。选择一个即可开启 EAGLE。</translation>
    </message>
    <message>
        <source>No model is loaded.</source>
        <translation>没有加载模型。</translation>
    </message>
    <message>
        <source>Nodes</source>
        <translation>节点</translation>
    </message>
    <message>
        <source>Not by EAGLE's authors.</source>
        <translation>并非 EAGLE 作者制作。</translation>
    </message>
    <message>
        <source>Nothing is adapted. The sizes to begin with: {0}.</source>
        <translation>不作调整。初始大小：{0}。</translation>
    </message>
    <message>
        <source>Only http:// and https:// proxies are understood.</source>
        <translation>只支持 http:// 和 https:// 代理。</translation>
    </message>
    <message>
        <source>Packing the weights</source>
        <translation>正在打包权重</translation>
    </message>
    <message>
        <source>Plain decoding</source>
        <translation>普通解码</translation>
    </message>
    <message>
        <source>Preparing the model was stopped.</source>
        <translation>模型准备已停止。</translation>
    </message>
    <message>
        <source>Prompt lookup</source>
        <translation>提示查找</translation>
    </message>
    <message>
        <source>Put all its parts into the same folder, then choose it again.</source>
        <translation>请将其所有部分放入同一文件夹，然后重新选择。</translation>
    </message>
    <message>
        <source>Quantising the weights (once)</source>
        <translation>正在量化权重（仅一次）</translation>
    </message>
    <message>
        <source>Reading the tokenizer</source>
        <translation>正在读取分词器</translation>
    </message>
    <message>
        <source>Reading the weights</source>
        <translation>正在读取权重</translation>
    </message>
    <message>
        <source>Refresh the list.</source>
        <translation>请刷新列表。</translation>
    </message>
    <message>
        <source>Restart the engine and write the reply again.</source>
        <translation>请重新启动引擎并重写回复。</translation>
    </message>
    <message>
        <source>Resume the download to fetch it anew, or cancel it.</source>
        <translation>请继续下载以重新获取，或取消下载。</translation>
    </message>
    <message>
        <source>Row-wise int8 is a format for CPUs.</source>
        <translation>逐行 int8 是用于 CPU 的格式。</translation>
    </message>
    <message>
        <source>Rows verified in one pass of the target, root included.</source>
        <translation>目标模型一次前向验证的行数，含根。</translation>
    </message>
    <message>
        <source>Run Eyrie's set-up again on a machine with an NVIDIA GPU, or choose the device cpu.</source>
        <translation>请在有 NVIDIA GPU 的机器上重新运行 Eyrie 的安装，或选择设备 cpu。</translation>
    </message>
    <message>
        <source>Run `git lfs pull` in that folder, or download the model in Eyrie.</source>
        <translation>请在该文件夹中运行 `git lfs pull`，或在 Eyrie 中下载模型。</translation>
    </message>
    <message>
        <source>Run `python packaging/bootstrap.py --repair` in the folder of Eyrie to install it again.</source>
        <translation>请在 Eyrie 文件夹中运行 `python packaging/bootstrap.py --repair` 重新安装。</translation>
    </message>
    <message>
        <source>Run `python packaging/bootstrap.py` in the folder of Eyrie to install it.</source>
        <translation>请在 Eyrie 文件夹中运行 `python packaging/bootstrap.py` 进行安装。</translation>
    </message>
    <message>
        <source>Scales the threshold down where the model is unsure, under typical acceptance.</source>
        <translation>在典型接受下，模型不确定时降低阈值。</translation>
    </message>
    <message>
        <source>Set it to one such as https://huggingface.co, or unset it; then start Eyrie again.</source>
        <translation>请将它设为 https://huggingface.co 这样的地址，或取消设置，然后重新启动 Eyrie。</translation>
    </message>
    <message>
        <source>Several heads guess the next positions all at once; a fixed tree combines their likeliest tokens.</source>
        <translation>多个头同时猜测后续位置；固定的树组合它们最可能的词元。</translation>
    </message>
    <message>
        <source>Shorten the message, or start a new chat.</source>
        <translation>请缩短消息，或新建聊天。</translation>
    </message>
    <message>
        <source>Shortest match</source>
        <translation>最短匹配</translation>
    </message>
    <message>
        <source>Small and free; the best pair to begin with.</source>
        <translation>小而开放；最适合入门的组合。</translation>
    </message>
    <message>
        <source>Spec-Bench, A100 (overall, batch 1, greedy, 16 bits)</source>
        <translation>Spec-Bench，A100（总体，批量 1，贪心，16 位）</translation>
    </message>
    <message>
        <source>Spec-Bench, A100, with the dynamic tree of EAGLE-2 (overall, batch 1, greedy, 16 bits)</source>
        <translation>Spec-Bench，A100，使用 EAGLE-2 的动态树（总体，批量 1，贪心，16 位）</translation>
    </message>
    <message>
        <source>Spec-Bench, RTX 3090 (overall, batch 1, greedy, 16 bits)</source>
        <translation>Spec-Bench，RTX 3090（总体，批量 1，贪心，16 位）</translation>
    </message>
    <message>
        <source>Spec-Bench, RTX 3090, with the dynamic tree of EAGLE-2 (overall, batch 1, greedy, 16 bits)</source>
        <translation>Spec-Bench，RTX 3090，使用 EAGLE-2 的动态树（总体，批量 1，贪心，16 位）</translation>
    </message>
    <message>
        <source>SpecBundle, MT-bench at batch 1 with a chain of 3, 190 to 404 tokens/s</source>
        <translation>SpecBundle，MT-bench，批量 1，链长 3，每秒 190 到 404 个词元</translation>
    </message>
    <message>
        <source>Start a new chat or shorten the messages.</source>
        <translation>请新建聊天或缩短消息。</translation>
    </message>
    <message>
        <source>Start a new chat, or take the system prompt out. If it happens again, use another model.</source>
        <translation>请新建聊天，或去掉系统提示。若再次发生，请使用其他模型。</translation>
    </message>
    <message>
        <source>The architecture “{0}” is not one that EAGLE runs on here.</source>
        <translation>EAGLE 在此不支持架构“{0}”。</translation>
    </message>
    <message>
        <source>The best of the three on mathematics and code.</source>
        <translation>三者中数学和代码最好的一个。</translation>
    </message>
    <message>
        <source>The cache does not hold {0} at {1}.</source>
        <translation>缓存中没有 {1} 版本的 {0}。</translation>
    </message>
    <message>
        <source>The catalogue lists it for this model; its files have not been looked at yet.</source>
        <translation>目录将其列为适用于此模型；其文件尚未查看。</translation>
    </message>
    <message>
        <source>The chat template of {0} does not accept this conversation: {1}</source>
        <translation>{0} 的聊天模板不接受此对话：{1}</translation>
    </message>
    <message>
        <source>The chat template of {0} is broken (line {1}: {2}).</source>
        <translation>{0} 的聊天模板有误（第 {1} 行：{2}）。</translation>
    </message>
    <message>
        <source>The context of {0} tokens is full.</source>
        <translation>{0} 个词元的上下文已满。</translation>
    </message>
    <message>
        <source>The device “{0}” is not supported.</source>
        <translation>不支持设备“{0}”。</translation>
    </message>
    <message>
        <source>The disk is too full: {0} must be free for {1}.</source>
        <translation>磁盘太满：{1} 需要 {0} 可用空间。</translation>
    </message>
    <message>
        <source>The disk with {0} is full.</source>
        <translation>{0} 所在的磁盘已满。</translation>
    </message>
    <message>
        <source>The download failed: {0}: {1}.</source>
        <translation>下载失败：{0}：{1}。</translation>
    </message>
    <message>
        <source>The draft model cannot be used.</source>
        <translation>无法使用草稿模型。</translation>
    </message>
    <message>
        <source>The draft vocabulary has not been verified.</source>
        <translation>草稿词表尚未核实。</translation>
    </message>
    <message>
        <source>The engine failed: {0}: {1}.</source>
        <translation>引擎出错：{0}：{1}。</translation>
    </message>
    <message>
        <source>The engine stopped before it got the prompt.</source>
        <translation>引擎在收到提示之前停止了。</translation>
    </message>
    <message>
        <source>The file counts {0} Medusa heads of {1} blocks, more than make sense.</source>
        <translation>文件称有 {0} 个 Medusa 头、每个 {1} 块，多得不合理。</translation>
    </message>
    <message>
        <source>The file holds no whole Medusa head.</source>
        <translation>文件中没有完整的 Medusa 头。</translation>
    </message>
    <message>
        <source>The files are incomplete or of another kind of model. {0}</source>
        <translation>文件不完整或属于其他种类的模型。{0}</translation>
    </message>
    <message>
        <source>The files do not belong together, or the architecture is another: choose another model.</source>
        <translation>文件不属于同一模型，或架构不同：请选择其他模型。</translation>
    </message>
    <message>
        <source>The files do not belong together: delete the model and download it again.</source>
        <translation>文件不属于同一模型：请删除模型并重新下载。</translation>
    </message>
    <message>
        <source>The folder {0} cannot be made ({1}).</source>
        <translation>无法创建文件夹 {0}（{1}）。</translation>
    </message>
    <message>
        <source>The head has biases in its MLP, which no known format has.</source>
        <translation>头的 MLP 中有偏置，已知格式都没有。</translation>
    </message>
    <message>
        <source>The head is quantised.</source>
        <translation>头已被量化。</translation>
    </message>
    <message>
        <source>The head uses {0} where silu is known.</source>
        <translation>头使用 {0}，而只支持 silu。</translation>
    </message>
    <message>
        <source>The head was made for {0}, which has the same shape; with another model it drafts worse.</source>
        <translation>头是为形状相同的 {0} 制作的；用于其他模型时起草较差。</translation>
    </message>
    <message>
        <source>The head was trained on Chinese.</source>
        <translation>头以中文训练。</translation>
    </message>
    <message>
        <source>The head was trained on replies with thinking, which this model does not do: it drafts less well.</source>
        <translation>头以带思考的回复训练，而此模型不思考：起草效果较差。</translation>
    </message>
    <message>
        <source>The head was trained on replies with thinking: leave thinking on, or it drafts less well.</source>
        <translation>头以带思考的回复训练：请保持开启思考，否则起草效果较差。</translation>
    </message>
    <message>
        <source>The head was trained on replies with thinking; where thinking is off it drafts less well.</source>
        <translation>头以带思考的回复训练；关闭思考时起草效果较差。</translation>
    </message>
    <message>
        <source>The head was trained on replies without thinking, and this model always thinks: it drafts less well.</source>
        <translation>头以不带思考的回复训练，而此模型总是思考：起草效果较差。</translation>
    </message>
    <message>
        <source>The head was trained on replies without thinking: switch thinking off, or it drafts less well.</source>
        <translation>头以不带思考的回复训练：请关闭思考，否则起草效果较差。</translation>
    </message>
    <message>
        <source>The head was trained on texts of up to {0} tokens; in longer chats it drafts less well.</source>
        <translation>头以最多 {0} 个词元的文本训练；在更长的聊天中起草效果较差。</translation>
    </message>
    <message>
        <source>The head's config.json makes no sense: {0} is {1}.</source>
        <translation>头的 config.json 不合理：{0} 为 {1}。</translation>
    </message>
    <message>
        <source>The head's config.json makes no sense: {0}.</source>
        <translation>头的 config.json 不合理：{0}。</translation>
    </message>
    <message>
        <source>The head's files leave open how to read it. Measured on the model's own replies: {0} ({1} tokens a step, otherwise {2}).</source>
        <translation>头的文件没有说明如何读取。在模型自己的回复上测得：{0}（每步 {1} 个词元，否则 {2}）。</translation>
    </message>
    <message>
        <source>The head's folder {0} does not exist.</source>
        <translation>头的文件夹 {0} 不存在。</translation>
    </message>
    <message>
        <source>The header of the head's file is damaged.</source>
        <translation>头的文件的文件头已损坏。</translation>
    </message>
    <message>
        <source>The header of {0} is damaged (a gap or overlap at byte {1}).</source>
        <translation>{0} 的文件头已损坏（第 {1} 字节处有空隙或重叠）。</translation>
    </message>
    <message>
        <source>The header of {0} is damaged ({1}).</source>
        <translation>{0} 的文件头已损坏（{1}）。</translation>
    </message>
    <message>
        <source>The hub at {0} cannot be reached ({1}).</source>
        <translation>无法连接 {0} 的模型中心（{1}）。</translation>
    </message>
    <message>
        <source>The hub cannot be reached, because {0}.</source>
        <translation>无法连接模型中心，因为 {0}。</translation>
    </message>
    <message>
        <source>The hub describes {0} in a way that cannot be used.</source>
        <translation>模型中心对 {0} 的描述无法使用。</translation>
    </message>
    <message>
        <source>The hub does not accept the token: it is wrong, or it has expired or been revoked.</source>
        <translation>模型中心不接受此令牌：令牌有误、已过期或已被撤销。</translation>
    </message>
    <message>
        <source>The hub has no such {0}: {1}.</source>
        <translation>模型中心没有这个{0}：{1}。</translation>
    </message>
    <message>
        <source>The hub is busy (status {0}).</source>
        <translation>模型中心繁忙（状态 {0}）。</translation>
    </message>
    <message>
        <source>The hub is not asked, because HF_HUB_OFFLINE is set.</source>
        <translation>未询问模型中心，因为设置了 HF_HUB_OFFLINE。</translation>
    </message>
    <message>
        <source>The hub refuses access to {0}.</source>
        <translation>模型中心拒绝访问 {0}。</translation>
    </message>
    <message>
        <source>The hub refuses the request for {0} (status {1}).</source>
        <translation>模型中心拒绝对 {0} 的请求（状态 {1}）。</translation>
    </message>
    <message>
        <source>The hub sends the download to an address that is not encrypted.</source>
        <translation>模型中心将下载转到未加密的地址。</translation>
    </message>
    <message>
        <source>The installed torch is the version for CPUs.</source>
        <translation>安装的 torch 是 CPU 版本。</translation>
    </message>
    <message>
        <source>The length of n-grams not to repeat is {0}.</source>
        <translation>不重复的 n-gram 长度为 {0}。</translation>
    </message>
    <message>
        <source>The loaded head is for {0}. Choose an {1} head for this model.</source>
        <translation>已加载的头用于 {0}。请为此模型选择 {1} 头。</translation>
    </message>
    <message>
        <source>The machine was busy with something else meanwhile: this is measured again next time.</source>
        <translation>测量时计算机正忙于其他任务：下次会重新测量。</translation>
    </message>
    <message>
        <source>The margin was asked of a token that the model does not have.</source>
        <translation>询问差距的词元是模型没有的。</translation>
    </message>
    <message>
        <source>The model alone, one token at a time: what every other method is measured against.</source>
        <translation>只有模型，一次一个词元：其他方法都以它为基准。</translation>
    </message>
    <message>
        <source>The model fills a window of future positions beside its own next token and keeps the n-grams that come up. Needs no second model, but many rows a pass.</source>
        <translation>模型在自己的下一个词元之外填入一个后续位置的窗口，并保留其中出现的 n-gram。不需要第二个模型，但每次前向行数很多。</translation>
    </message>
    <message>
        <source>The model has the tensor {0}{1}, which its config.json does not explain.</source>
        <translation>模型有张量 {0}{1}，其 config.json 无法解释。</translation>
    </message>
    <message>
        <source>The model in {0} lacks the tensor {1}.</source>
        <translation>{0} 中的模型缺少张量 {1}。</translation>
    </message>
    <message>
        <source>The model is a mixture of experts, where drafting gains little.</source>
        <translation>模型是混合专家模型，起草收益很小。</translation>
    </message>
    <message>
        <source>The model is ready</source>
        <translation>模型已就绪</translation>
    </message>
    <message>
        <source>The model lacks the tensor {0}.</source>
        <translation>模型缺少张量 {0}。</translation>
    </message>
    <message>
        <source>The model runs without EAGLE.</source>
        <translation>模型在没有 EAGLE 的情况下运行。</translation>
    </message>
    <message>
        <source>The model that is loaded now is unloaded first.</source>
        <translation>现在加载的模型会先被卸载。</translation>
    </message>
    <message>
        <source>The model's {0} is not supported.</source>
        <translation>不支持模型的 {0}。</translation>
    </message>
    <message>
        <source>The most tokens at the end of the text that are looked for earlier in it.</source>
        <translation>最多用文本末尾的多少个词元在前文中查找。</translation>
    </message>
    <message>
        <source>The official head with the paper's best numbers (5.51 there).</source>
        <translation>官方头，论文中成绩最好（5.51）。</translation>
    </message>
    <message>
        <source>The official head, for a model that thinks before it answers.</source>
        <translation>官方头，用于先思考后回答的模型。</translation>
    </message>
    <message>
        <source>The official head; trained on texts of up to 2,048 tokens.</source>
        <translation>官方头；以最多 2,048 个词元的文本训练。</translation>
    </message>
    <message>
        <source>The package {0} with the demo model is not installed ({1} is missing).</source>
        <translation>没有安装含演示模型的软件包 {0}（缺少 {1}）。</translation>
    </message>
    <message>
        <source>The part of Eyrie that talks to the hub stopped unexpectedly.</source>
        <translation>Eyrie 中与模型中心通信的部分意外停止。</translation>
    </message>
    <message>
        <source>The place is at token {0}, the context holds {1}.</source>
        <translation>该处在第 {0} 个词元，而上下文容纳 {1} 个。</translation>
    </message>
    <message>
        <source>The prompt has {0} tokens, the context holds {1}.</source>
        <translation>提示有 {0} 个词元，而上下文容纳 {1} 个。</translation>
    </message>
    <message>
        <source>The prompt is empty.</source>
        <translation>提示为空。</translation>
    </message>
    <message>
        <source>The proxy {0} asks for a name and a password, or does not accept those it was given.</source>
        <translation>代理 {0} 要求用户名和密码，或不接受所给的用户名和密码。</translation>
    </message>
    <message>
        <source>The proxy {0} cannot be used: its address is wrong, or it is a SOCKS proxy.</source>
        <translation>无法使用代理 {0}：地址有误，或它是 SOCKS 代理。</translation>
    </message>
    <message>
        <source>The proxy {0} does not let anything through to {1} (status {2}).</source>
        <translation>代理 {0} 不允许连接 {1}（状态 {2}）。</translation>
    </message>
    <message>
        <source>The published tree, or paths of ranks such as [[0], [1], [0, 0]]; its likeliest part is used where nodes or depth allow no more.</source>
        <translation>论文公布的树，或形如 [[0], [1], [0, 0]] 的排名路径；当节点数或深度不足时使用其最可能的部分。</translation>
    </message>
    <message>
        <source>The quantised weights in {0} cannot be read.</source>
        <translation>无法读取 {0} 中的量化权重。</translation>
    </message>
    <message>
        <source>The repetition penalty is {0}.</source>
        <translation>重复惩罚为 {0}。</translation>
    </message>
    <message>
        <source>The reply length is {0} tokens.</source>
        <translation>回复长度为 {0} 个词元。</translation>
    </message>
    <message>
        <source>The target stays in its own MXFP4.</source>
        <translation>目标模型保持自己的 MXFP4 格式。</translation>
    </message>
    <message>
        <source>The temperature is {0}.</source>
        <translation>温度为 {0}。</translation>
    </message>
    <message>
        <source>The tensor {0} has shape {1} where config.json asks for {2}.</source>
        <translation>张量 {0} 的形状为 {1}，而 config.json 要求 {2}。</translation>
    </message>
    <message>
        <source>The tensor {0} has {1} bytes for {2} × {3}.</source>
        <translation>张量 {0} 有 {1} 字节，对应 {2} × {3}。</translation>
    </message>
    <message>
        <source>The tensor {0} holds values that are not finite numbers (NaN or infinity).</source>
        <translation>张量 {0} 含有非有限数值（NaN 或无穷大）。</translation>
    </message>
    <message>
        <source>The tensor {0} holds {1}, not numbers of 16 or 32 bits.</source>
        <translation>张量 {0} 含 {1}，而不是 16 或 32 位数值。</translation>
    </message>
    <message>
        <source>The tensor {0} is both in {1} and in {2}.</source>
        <translation>张量 {0} 同时在 {1} 和 {2} 中。</translation>
    </message>
    <message>
        <source>The tensor {0} is in two of the head's files.</source>
        <translation>张量 {0} 在头的两个文件中。</translation>
    </message>
    <message>
        <source>The tensor {0} of {1} has shape {2} where {3} is expected.</source>
        <translation>{1} 的张量 {0} 形状为 {2}，应为 {3}。</translation>
    </message>
    <message>
        <source>The tensor {0} of {1} is quantised in an unknown way ({2}).</source>
        <translation>{1} 的张量 {0} 以未知方式量化（{2}）。</translation>
    </message>
    <message>
        <source>The tensor {0}.absmax or .quant_map has an unexpected size.</source>
        <translation>张量 {0}.absmax 或 .quant_map 的大小不符。</translation>
    </message>
    <message>
        <source>The tensor {0}.g_idx has groups of unequal size.</source>
        <translation>张量 {0}.g_idx 的组大小不一。</translation>
    </message>
    <message>
        <source>The tensor {0}.weight has shape {1} where config.json asks for {2}.</source>
        <translation>张量 {0}.weight 的形状为 {1}，而 config.json 要求 {2}。</translation>
    </message>
    <message>
        <source>The tensor {0}.{1} is damaged ({2}).</source>
        <translation>张量 {0}.{1} 已损坏（{2}）。</translation>
    </message>
    <message>
        <source>The token holds a space, or a letter that no token has: it was not copied whole, or with more.</source>
        <translation>令牌中含有空格或令牌不会有的字符：复制得不完整，或多复制了内容。</translation>
    </message>
    <message>
        <source>The token may not read gated repositories such as {0}.</source>
        <translation>此令牌无权读取 {0} 这样的受限仓库。</translation>
    </message>
    <message>
        <source>The tokenizer in {0} cannot be converted ({1}).</source>
        <translation>无法转换 {0} 中的分词器（{1}）。</translation>
    </message>
    <message>
        <source>The tokenizer of {0} decodes with {1}, which cannot be shown as it is written.</source>
        <translation>{0} 的分词器用 {1} 解码，无法边写边显示。</translation>
    </message>
    <message>
        <source>The tree “{0}” makes no sense: {1}.</source>
        <translation>树“{0}”不合理：{1}。</translation>
    </message>
    <message>
        <source>The {0} is full.</source>
        <translation>{0} 已满。</translation>
    </message>
    <message>
        <source>There is no GPU {0}; {1} were found.</source>
        <translation>没有 GPU {0}；找到 {1} 个。</translation>
    </message>
    <message>
        <source>There is no file {0}.</source>
        <translation>没有文件 {0}。</translation>
    </message>
    <message>
        <source>There is no method “{0}”.</source>
        <translation>没有方法“{0}”。</translation>
    </message>
    <message>
        <source>There is no model folder {0}.</source>
        <translation>没有模型文件夹 {0}。</translation>
    </message>
    <message>
        <source>There is no model folder {0}: it {1}.</source>
        <translation>没有模型文件夹 {0}：它 {1}。</translation>
    </message>
    <message>
        <source>There is no user message to answer.</source>
        <translation>没有可回答的用户消息。</translation>
    </message>
    <message>
        <source>These Medusa heads come inside a model that was trained with them (Medusa-2).</source>
        <translation>这些 Medusa 头包含在与其共同训练的模型中 (Medusa-2)。</translation>
    </message>
    <message>
        <source>This drafter is of the kind {0}.</source>
        <translation>此草稿模型属于 {0} 类型。</translation>
    </message>
    <message>
        <source>This failed: {0}.</source>
        <translation>操作失败：{0}。</translation>
    </message>
    <message>
        <source>This head belongs to another model. {0}{1}</source>
        <translation>此头属于其他模型。{0}{1}</translation>
    </message>
    <message>
        <source>This head does not say which layers it taps, and the usual ones do not exist in a model of {0}.</source>
        <translation>此头没有说明取用哪些层，而常用的层在 {0} 的模型中不存在。</translation>
    </message>
    <message>
        <source>This head drafts all tokens at once, which is not supported.</source>
        <translation>此头一次起草所有词元，不受支持。</translation>
    </message>
    <message>
        <source>This head guesses no better than chance for this model: it foresees nothing of the model's own replies. It was made for another model, or its file is damaged. Replies stay right, but they do not get faster: choose another head, or chat without one.</source>
        <translation>对此模型而言，此头的猜测不比随机更好：它预见不到模型自己的回复。它是为其他模型制作的，或文件已损坏。回复仍然正确，但不会更快：请选择其他头，或不用头聊天。</translation>
    </message>
    <message>
        <source>This head has DeepSeek's multi-head latent attention.</source>
        <translation>此头使用 DeepSeek 的多头潜在注意力。</translation>
    </message>
    <message>
        <source>This head reads the model's final state only, a variant of EAGLE-3 that is not supported.</source>
        <translation>此头只读取模型的最终状态，这种 EAGLE-3 变体不受支持。</translation>
    </message>
    <message>
        <source>This head sets {0} to {1}, a variant that is not supported.</source>
        <translation>此头将 {0} 设为 {1}，这种变体不受支持。</translation>
    </message>
    <message>
        <source>This is a {0} drafter, not an EAGLE head.</source>
        <translation>这是 {0} 草稿模型，不是 EAGLE 头。</translation>
    </message>
    <message>
        <source>This is no EAGLE head: it has no attention layer of its own.</source>
        <translation>这不是 EAGLE 头：它没有自己的注意力层。</translation>
    </message>
    <message>
        <source>This is no EAGLE head: it has several layers, as a whole model has.</source>
        <translation>这不是 EAGLE 头：它像完整模型一样有多层。</translation>
    </message>
    <message>
        <source>This is no EAGLE-3 head: {0} holds a head {1}.</source>
        <translation>这不是 EAGLE-3 头：{0} 含有{1}的头。</translation>
    </message>
    <message>
        <source>Token ids are 0 to {0}.</source>
        <translation>词元 id 为 0 到 {0}。</translation>
    </message>
    <message>
        <source>Top-k</source>
        <translation>Top-k</translation>
    </message>
    <message>
        <source>Tree</source>
        <translation>树</translation>
    </message>
    <message>
        <source>Try again in a few minutes.</source>
        <translation>请几分钟后重试。</translation>
    </message>
    <message>
        <source>Try again later, or from another network: something on the way changes the data.</source>
        <translation>请稍后或换一个网络重试：途中有东西改动了数据。</translation>
    </message>
    <message>
        <source>Try again later.</source>
        <translation>请稍后重试。</translation>
    </message>
    <message>
        <source>Try again.</source>
        <translation>请重试。</translation>
    </message>
    <message>
        <source>Try again; if it stays, report it.</source>
        <translation>请重试；若问题依旧，请报告。</translation>
    </message>
    <message>
        <source>Try later.</source>
        <translation>请稍后再试。</translation>
    </message>
    <message>
        <source>Type a message first.</source>
        <translation>请先输入消息。</translation>
    </message>
    <message>
        <source>Typical: delta</source>
        <translation>典型：delta</translation>
    </message>
    <message>
        <source>Typical: threshold</source>
        <translation>典型：阈值</translation>
    </message>
    <message>
        <source>Update the NVIDIA driver, or choose the device cpu.</source>
        <translation>请更新 NVIDIA 驱动，或选择设备 cpu。</translation>
    </message>
    <message>
        <source>Use a model that is already here, or unset HF_HUB_OFFLINE and start Eyrie again.</source>
        <translation>请使用本机已有的模型，或取消设置 HF_HUB_OFFLINE 并重新启动 Eyrie。</translation>
    </message>
    <message>
        <source>Waiting for another Eyrie that prepares the same model</source>
        <translation>正在等待另一个准备同一模型的 Eyrie</translation>
    </message>
    <message>
        <source>Weights quantised by {0} are not read here.</source>
        <translation>这里不读取由 {0} 量化的权重。</translation>
    </message>
    <message>
        <source>What answers at {0} does not speak as a model hub does.</source>
        <translation>{0} 返回的内容不像是模型中心的应答。</translation>
    </message>
    <message>
        <source>What had come is kept: continue it, or write it again.</source>
        <translation>已有内容会保留：可以续写或重写。</translation>
    </message>
    <message>
        <source>What has arrived is kept. Check {0} and resume the download.</source>
        <translation>已到达的部分会保留。请检查 {0} 并继续下载。</translation>
    </message>
    <message>
        <source>Window</source>
        <translation>窗口</translation>
    </message>
    <message>
        <source>Write a Python function that reverses a list.</source>
        <translation>Write a Python function that reverses a list.</translation>
    </message>
    <message>
        <source>Write a message and send it.</source>
        <translation>请写一条消息并发送。</translation>
    </message>
    <message>
        <source>Write them into HTTP_PROXY and HTTPS_PROXY (http://name:password@host:port), then start Eyrie again.</source>
        <translation>请写入 HTTP_PROXY 和 HTTPS_PROXY（http://name:password@host:port），然后重新启动 Eyrie。</translation>
    </message>
    <message>
        <source>Writing into {0} failed ({1}).</source>
        <translation>写入 {0} 失败（{1}）。</translation>
    </message>
    <message>
        <source>a namespace cannot hold {0}</source>
        <translation>命名空间无法容纳 {0}</translation>
    </message>
    <message>
        <source>bitsandbytes, which 4-bit weights need, does not load ({0}: {1}).</source>
        <translation>4 位权重所需的 bitsandbytes 无法加载（{0}：{1}）。</translation>
    </message>
    <message>
        <source>config.json lacks or garbles a field: {0}.</source>
        <translation>config.json 缺少字段或字段有误：{0}。</translation>
    </message>
    <message>
        <source>its author, 147 to 231 tokens/s</source>
        <translation>其作者测得每秒 147 到 231 个词元</translation>
    </message>
    <message>
        <source>its author, 186 to 365 tokens/s on an H200 with SGLang</source>
        <translation>其作者在 H200 上用 SGLang 测得每秒 186 到 365 个词元</translation>
    </message>
    <message>
        <source>torch finds no NVIDIA GPU.</source>
        <translation>torch 找不到 NVIDIA GPU。</translation>
    </message>
    <message>
        <source>transformers cannot load {0} either: {1}</source>
        <translation>transformers 也无法加载 {0}：{1}</translation>
    </message>
    <message>
        <source>{0} arrived damaged: {1}.</source>
        <translation>{0} 到达时已损坏：{1}。</translation>
    </message>
    <message>
        <source>{0} cannot be deleted: its files are in use, or protected.</source>
        <translation>无法删除 {0}：文件正在使用或受到保护。</translation>
    </message>
    <message>
        <source>{0} cannot be deleted: some of its files are missing.</source>
        <translation>无法删除 {0}：缺少部分文件。</translation>
    </message>
    <message>
        <source>{0} cannot be deleted: {1}.</source>
        <translation>无法删除 {0}：{1}。</translation>
    </message>
    <message>
        <source>{0} cannot be read ({1}).</source>
        <translation>无法读取 {0}（{1}）。</translation>
    </message>
    <message>
        <source>{0} cannot be read as JSON: {1}.</source>
        <translation>无法将 {0} 作为 JSON 读取：{1}。</translation>
    </message>
    <message>
        <source>{0} cannot be read: it is no text in UTF-8.</source>
        <translation>无法读取 {0}：它不是 UTF-8 文本。</translation>
    </message>
    <message>
        <source>{0} cannot be read: {1}.</source>
        <translation>无法读取 {0}：{1}。</translation>
    </message>
    <message>
        <source>{0} cannot be used here.</source>
        <translation>此处无法使用 {0}。</translation>
    </message>
    <message>
        <source>{0} cannot be written: {1}.</source>
        <translation>无法写入 {0}：{1}。</translation>
    </message>
    <message>
        <source>{0} changed on the hub while it was downloaded.</source>
        <translation>{0} 在下载期间于模型中心发生了变化。</translation>
    </message>
    <message>
        <source>{0} could not be downloaded: {1}.</source>
        <translation>无法下载 {0}：{1}。</translation>
    </message>
    <message>
        <source>{0} does not exist.</source>
        <translation>{0} 不存在。</translation>
    </message>
    <message>
        <source>{0} does not hold a JSON object.</source>
        <translation>{0} 不含 JSON 对象。</translation>
    </message>
    <message>
        <source>{0} does not hold named tensors.</source>
        <translation>{0} 不含命名的张量。</translation>
    </message>
    <message>
        <source>{0} does not list the head's files.</source>
        <translation>{0} 没有列出头的文件。</translation>
    </message>
    <message>
        <source>{0} does not say what kind each token is.</source>
        <translation>{0} 没有说明每个词元的种类。</translation>
    </message>
    <message>
        <source>{0} has a token twice in its vocabulary.</source>
        <translation>{0} 的词表中有重复的词元。</translation>
    </message>
    <message>
        <source>{0} has a tokenizer of kind {1}, which cannot be converted yet.</source>
        <translation>{0} 的分词器属于 {1} 类型，尚无法转换。</translation>
    </message>
    <message>
        <source>{0} has an unfinished download, which would be deleted with it.</source>
        <translation>{0} 有未完成的下载，会被一并删除。</translation>
    </message>
    <message>
        <source>{0} has an unknown tensor: {1}.</source>
        <translation>{0} 含有未知张量：{1}。</translation>
    </message>
    <message>
        <source>{0} has another vocabulary than the model. Choose a smaller model of the same family.</source>
        <translation>{0} 的词表与模型不同。请选择同系列的较小模型。</translation>
    </message>
    <message>
        <source>{0} has neither {1} nor {2}.</source>
        <translation>{0} 既没有 {1} 也没有 {2}。</translation>
    </message>
    <message>
        <source>{0} has no file {1}.</source>
        <translation>{0} 没有文件 {1}。</translation>
    </message>
    <message>
        <source>{0} has no setting “{1}”.</source>
        <translation>{0} 没有设置“{1}”。</translation>
    </message>
    <message>
        <source>{0} has no such {1}.</source>
        <translation>{0} 没有这个{1}。</translation>
    </message>
    <message>
        <source>{0} has no tokenizer.json.</source>
        <translation>{0} 没有 tokenizer.json。</translation>
    </message>
    <message>
        <source>{0} has no {1}, only {2}.</source>
        <translation>{0} 没有 {1}，只有 {2}。</translation>
    </message>
    <message>
        <source>{0} holds more than tensors and was not opened: {1}</source>
        <translation>{0} 含有张量以外的内容，没有打开：{1}</translation>
    </message>
    <message>
        <source>{0} holds no GGUF files.</source>
        <translation>{0} 不含 GGUF 文件。</translation>
    </message>
    <message>
        <source>{0} holds no JSON object.</source>
        <translation>{0} 不含 JSON 对象。</translation>
    </message>
    <message>
        <source>{0} holds no weights that Eyrie can read.</source>
        <translation>{0} 不含 Eyrie 能读取的权重。</translation>
    </message>
    <message>
        <source>{0} holds numbers of the kind {1}, which torch lacks.</source>
        <translation>{0} 含有 torch 不支持的 {1} 类型数值。</translation>
    </message>
    <message>
        <source>{0} holds something other than tensors, which is not opened.</source>
        <translation>{0} 含有张量以外的内容，不予打开。</translation>
    </message>
    <message>
        <source>{0} holds the tensor {1}, which {2} of this kind does not have.</source>
        <translation>{0} 含有张量 {1}，而这种{2}没有它。</translation>
    </message>
    <message>
        <source>{0} holds {1} GGUF files.</source>
        <translation>{0} 含有 {1} 个 GGUF 文件。</translation>
    </message>
    <message>
        <source>{0} is a GGUF file of version {1}; versions 2 and 3 are known.</source>
        <translation>{0} 是版本 {1} 的 GGUF 文件；支持版本 2 和 3。</translation>
    </message>
    <message>
        <source>{0} is a Git LFS pointer, not the weights themselves.</source>
        <translation>{0} 是 Git LFS 指针，而不是权重本身。</translation>
    </message>
    <message>
        <source>{0} is a sentencepiece model of another kind than Llama's.</source>
        <translation>{0} 是与 Llama 不同种类的 sentencepiece 模型。</translation>
    </message>
    <message>
        <source>{0} is a {1} model; only {2} can be read from GGUF.</source>
        <translation>{0} 是 {1} 模型；只能从 GGUF 读取 {2}。</translation>
    </message>
    <message>
        <source>{0} is gated, and your account has not been let in.</source>
        <translation>{0} 受限，而你的账户尚未获准。</translation>
    </message>
    <message>
        <source>{0} is gated: the hub gives it only to people who are logged in.</source>
        <translation>{0} 受限：模型中心只提供给已登录的人。</translation>
    </message>
    <message>
        <source>{0} is missing in {1}.</source>
        <translation>{1} 中缺少 {0}。</translation>
    </message>
    <message>
        <source>{0} is missing, and so is pytorch_model.bin.</source>
        <translation>缺少 {0}，也缺少 pytorch_model.bin。</translation>
    </message>
    <message>
        <source>{0} is missing.</source>
        <translation>缺少 {0}。</translation>
    </message>
    <message>
        <source>{0} is no GGUF file.</source>
        <translation>{0} 不是 GGUF 文件。</translation>
    </message>
    <message>
        <source>{0} is no plain list of named tensors.</source>
        <translation>{0} 不是单纯的命名张量列表。</translation>
    </message>
    <message>
        <source>{0} is no whole model: {1}.</source>
        <translation>{0} 不是完整的模型：{1}。</translation>
    </message>
    <message>
        <source>{0} is not a JSON object.</source>
        <translation>{0} 不是 JSON 对象。</translation>
    </message>
    <message>
        <source>{0} is not a complete PyTorch file: {1}</source>
        <translation>{0} 不是完整的 PyTorch 文件：{1}</translation>
    </message>
    <message>
        <source>{0} is not a complete safetensors file: {1}</source>
        <translation>{0} 不是完整的 safetensors 文件：{1}</translation>
    </message>
    <message>
        <source>{0} is not a complete safetensors file: {1}.</source>
        <translation>{0} 不是完整的 safetensors 文件：{1}。</translation>
    </message>
    <message>
        <source>{0} is not a safetensors file ({1} bytes).</source>
        <translation>{0} 不是 safetensors 文件（{1} 字节）。</translation>
    </message>
    <message>
        <source>{0} is not a sentencepiece model ({1}).</source>
        <translation>{0} 不是 sentencepiece 模型（{1}）。</translation>
    </message>
    <message>
        <source>{0} is not a usable GGUF file: {1}.</source>
        <translation>{0} 不是可用的 GGUF 文件：{1}。</translation>
    </message>
    <message>
        <source>{0} is not supported.</source>
        <translation>不支持 {0}。</translation>
    </message>
    <message>
        <source>{0} is not valid JSON: {1}.</source>
        <translation>{0} 不是有效的 JSON：{1}。</translation>
    </message>
    <message>
        <source>{0} is one of several parts, and not all of them are here.</source>
        <translation>{0} 是若干部分之一，而它们并不齐全。</translation>
    </message>
    <message>
        <source>{0} is quantised as {1}, which cannot be converted.</source>
        <translation>{0} 以 {1} 量化，无法转换。</translation>
    </message>
    <message>
        <source>{0} is the largest that has room on the disk; {1} {2}.</source>
        <translation>{0} 是磁盘上放得下的最大者；{1} {2}。</translation>
    </message>
    <message>
        <source>{0} is the smallest; not even it has room on the disk.</source>
        <translation>{0} 是最小的；连它也放不下磁盘。</translation>
    </message>
    <message>
        <source>{0} is the usual choice: small, and close to the original.</source>
        <translation>{0} 是常见的选择：小，且接近原模型。</translation>
    </message>
    <message>
        <source>{0} is tried again.</source>
        <translation>正在重试 {0}。</translation>
    </message>
    <message>
        <source>{0} is truncated or damaged: its header runs past the end at {1} bytes.</source>
        <translation>{0} 被截断或已损坏：其文件头超出 {1} 字节的末尾。</translation>
    </message>
    <message>
        <source>{0} is truncated: {1} bytes where {2} are expected.</source>
        <translation>{0} 被截断：{1} 字节，应为 {2}。</translation>
    </message>
    <message>
        <source>{0} is truncated: {1} bytes, and its header alone needs {2}.</source>
        <translation>{0} 被截断：{1} 字节，而仅文件头就需要 {2}。</translation>
    </message>
    <message>
        <source>{0} is {1}: {2} bytes where {3} are expected.</source>
        <translation>{0} {1}：{2} 字节，应为 {3}。</translation>
    </message>
    <message>
        <source>{0} lacks the tensor {1}, which {2} says is in it.</source>
        <translation>{0} 缺少张量 {1}，而 {2} 称其在内。</translation>
    </message>
    <message>
        <source>{0} lacks the tensor {1}.</source>
        <translation>{0} 缺少张量 {1}。</translation>
    </message>
    <message>
        <source>{0} lacks the tensor {1}{2}.</source>
        <translation>{0} 缺少张量 {1}{2}。</translation>
    </message>
    <message>
        <source>{0} lists no tensors.</source>
        <translation>{0} 没有列出张量。</translation>
    </message>
    <message>
        <source>{0} names {1} as {2}, outside its vocabulary.</source>
        <translation>{0} 将 {1} 指定为 {2}，超出其词表。</translation>
    </message>
    <message>
        <source>{0} needs {1} GB of the {2} in {3}, and {4} of {5} GB are free{6}</source>
        <translation>{0} 需要 {3} 中 {2} 的 {1} GB，而 {5} GB 中有 {4} 可用{6}</translation>
    </message>
    <message>
        <source>{0} of {1} arrived just as the hub has it, but is no whole safetensors file.</source>
        <translation>{1} 的 {0} 与模型中心上的一致，但不是完整的 safetensors 文件。</translation>
    </message>
    <message>
        <source>{0} of {1} cannot be read: {2}.</source>
        <translation>无法读取 {1} 的 {0}：{2}。</translation>
    </message>
    <message>
        <source>{0} of {1} is no safetensors file: {2}.</source>
        <translation>{1} 的 {0} 不是 safetensors 文件：{2}。</translation>
    </message>
    <message>
        <source>{0} points outside of its folder: {1}.</source>
        <translation>{0} 指向其文件夹之外：{1}。</translation>
    </message>
    <message>
        <source>{0} runs through transformers.</source>
        <translation>{0} 通过 transformers 运行。</translation>
    </message>
    <message>
        <source>{0} still needs {1}; the disk with {2} has {3} free, and {4} always stay free for other programs.</source>
        <translation>{0} 还需要 {1}；{2} 所在磁盘剩余 {3}，其中 {4} 始终留给其他程序。</translation>
    </message>
    <message>
        <source>{0} was deleted or moved while it was being downloaded.</source>
        <translation>{0} 在下载过程中被删除或移动。</translation>
    </message>
    <message>
        <source>{0} {1}: it makes the reply slower here. It is tried again after {2} tokens.</source>
        <translation>{0} {1}：它在此使回复变慢。{2} 个词元之后再试。</translation>
    </message>
    <message>
        <source>{0}: config.json says {1} {2}, but the tensors have {3}.</source>
        <translation>{0}：config.json 称 {1} 为 {2}，而张量为 {3}。</translation>
    </message>
    <message>
        <source>{0}: d2t points to token {1}, outside the vocabulary of {2}.</source>
        <translation>{0}：d2t 指向词元 {1}，超出 {2} 的词表。</translation>
    </message>
    <message>
        <source>{0}: t2d does not mark the same tokens as d2t.</source>
        <translation>{0}：t2d 与 d2t 标记的词元不同。</translation>
    </message>
    <message>
        <source>{0}: the draft tokens in d2t are not strictly increasing.</source>
        <translation>{0}：d2t 中的草稿词元不是严格递增。</translation>
    </message>
    <message>
        <source>{0}: {1} belongs to other RoPE settings than config.json's.</source>
        <translation>{0}：{1} 属于与 config.json 不同的 RoPE 设置。</translation>
    </message>
    <message>
        <source>{0}: {1} has shape {2}, expected {3}{4}.</source>
        <translation>{0}：{1} 的形状为 {2}，应为 {3}{4}。</translation>
    </message>
    <message>
        <source>{0}: {1} holds values that are not finite numbers.</source>
        <translation>{0}：{1} 含有非有限数值。</translation>
    </message>
    <message>
        <source>{0}: {1} holds {2}, expected {3}.</source>
        <translation>{0}：{1} 含 {2}，应为 {3}。</translation>
    </message>
    <message>
        <source>{0}: {1} is of the type {2}.</source>
        <translation>{0}：{1} 的类型为 {2}。</translation>
    </message>
    <message>
        <source>{0}× published: {1}.</source>
        <translation>公布的加速 {0} 倍：{1}。</translation>
    </message>
    <message>
        <source>{name} has no chat template of its own; the one its makers describe is used.</source>
        <translation>{name} 没有自带聊天模板；使用其作者描述的模板。</translation>
    </message>
    <message>
        <source>{name} has no chat template: it may be a base model, which continues text and was not taught to answer. A plain User/Assistant form is used. For answers, choose an instruction-tuned model (its name often ends in -it, -Instruct or -Chat).</source>
        <translation>{name} 没有聊天模板：它可能是基础模型，只会续写文本而没有学过回答。这里使用简单的 User/Assistant 形式。若想得到回答，请选择经过指令微调的模型（名称常以 -it、-Instruct 或 -Chat 结尾）。</translation>
    </message>
    <message>
        <source>“{0}” is no name of a repository.</source>
        <translation>“{0}”不是仓库名称。</translation>
    </message>
    <message>
        <source>“{0}” is not a device.</source>
        <translation>“{0}”不是设备。</translation>
    </message>
    <message>
        <source>“{0}” is not a weight format.</source>
        <translation>“{0}”不是权重格式。</translation>
    </message>
</context>
</TS>
